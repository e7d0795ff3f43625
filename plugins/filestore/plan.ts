import { type Count, type Names, type Rule, RULE_ACTIONS } from 'rowhouse/plan'

/** The table of the records. Its permissions, where somebody has made some, are the rules for files. */
export const FILE_TABLE = { schema: 'svc_catalog', name: 'svc_file' } as const

/** Counts the file whose id is the first value if a rule accepts it: 1 or 0. */
export default function plan({ under }: { readonly under: Rule }, names: Names): Count {
  const type = names.table(FILE_TABLE, RULE_ACTIONS[under], '$').columnsByName.get('file_id')?.type
  if (!type) throw new Error('a file without an id')
  const to = { kind: 'value', slot: 0, type, path: '$' } as const
  return { kind: 'count', table: FILE_TABLE, where: { kind: 'compare', column: 'file_id', op: 'eq', to }, under }
}
