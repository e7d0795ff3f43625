import { type Count, type Names, type Rule, RULE_ACTIONS } from 'rowhouse/plan'

/** The table of file records. Its row permissions are the rules for files. */
export const FILE_TABLE = { schema: 'svc_catalog', name: 'svc_file' } as const

/** Plans a count of the file with the given id, which is 1 if a rule accepts it and 0 otherwise. */
export default function plan({ under }: { readonly under: Rule }, names: Names): Count {
  const type = names.table(FILE_TABLE, RULE_ACTIONS[under], '$').columnsByName.get('file_id')?.type
  if (!type) throw new Error('svc_file has no column file_id')
  const to = { kind: 'value', slot: 0, type, path: '$' } as const
  return { kind: 'count', table: FILE_TABLE, where: { kind: 'compare', column: 'file_id', op: 'eq', to }, under }
}
