/** Keys of the args of each operation. Those that are required come first, before `|`. */
const OPERATIONS: Readonly<Record<string, string>> = {
  select: 'table columns | where order_by limit offset group_by having distinct_on after',
  count: 'table | where distinct',
  insert: 'table objects | on_conflict returning',
  update: 'table where | $set $inc $mul $default expect returning',
  delete: 'table where | expect returning',
  call: 'function | arguments columns where order_by limit offset distinct_on group_by having',
  bulk: '',
  execute_query_template: 'name args',
  attach_file: 'file_id',
  send_email: 'to from sub | text html',
  describe: '',
}

const ADMIN_OPERATIONS: Readonly<Record<string, string>> = {
  run_sql: 'sql | cascade params read_only timeout_ms no_transaction check_metadata_consistency',
  create_query_template: 'name template | comment',
  drop_query_template: 'name',
  set_query_template_comment: 'name comment',
  explain_permission: 'role operation table | session key object permission',
  track_table: 'table | is_enum',
  set_table_version: 'table column',
  untrack_table: 'table | cascade',
  track_all: '| schemas tables names dry_run',
  create_object_relationship: 'table name using | comment',
  create_array_relationship: 'table name using | comment',
  drop_relationship: 'table relationship | cascade',
  rename_relationship: 'table name new_name',
  create_select_permission: 'table role permission | comment',
  create_insert_permission: 'table role permission | comment',
  create_update_permission: 'table role permission | comment',
  create_delete_permission: 'table role permission | comment',
  drop_select_permission: 'table role',
  drop_insert_permission: 'table role',
  drop_update_permission: 'table role',
  drop_delete_permission: 'table role',
  track_function: 'function | configuration comment',
  untrack_function: 'function',
  create_function_permission: 'function role',
  drop_function_permission: 'function role',
  add_computed_field: 'table name definition | comment',
  drop_computed_field: 'table name | cascade',
  set_table_customization: 'table configuration',
  table_sizes: '',
  lint_metadata: '',
  advise_indexes: '| try',
  inherited_permissions: '',
  set_role_inheritance: 'role roles',
  export_metadata: '',
  reload_metadata: '',
  get_inconsistent_metadata: '',
}

export const operationsFor = (isAdmin: boolean): readonly string[] =>
  Object.keys(isAdmin ? { ...OPERATIONS, ...ADMIN_OPERATIONS } : OPERATIONS)

/** Returns the keys of an operation's args, and which of them are required. */
export function keysOf(type: string): readonly { readonly key: string; readonly isRequired: boolean }[] {
  const [required = '', optional = ''] = (OPERATIONS[type] ?? ADMIN_OPERATIONS[type] ?? '').split('|')
  const words = (text: string, isRequired: boolean) =>
    text
      .split(' ')
      .filter(Boolean)
      .map((key) => ({ key, isRequired }))
  return [...words(required, true), ...words(optional, false)]
}

/** Operations whose SQL and plan the server shows. */
export const EXPLAINED: readonly string[] = [
  'select',
  'count',
  'call',
  'insert',
  'update',
  'delete',
  'execute_query_template',
]
/** Operations that may be kept as a template. */
export const TEMPLATED: readonly string[] = ['select', 'count', 'call', 'insert', 'update', 'delete']
export const AGGREGATES = 'count sum avg min max stddev variance array_agg jsonb_agg'.split(' ')
