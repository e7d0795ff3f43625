import type { TableRef } from '../ir.js'

/**
 * How GraphQL names what is not given a name. `hasura-default`: as in the database, with parts in snake_case.
 * `graphql-default`: fields in camelCase, types in PascalCase, and the values of enum tables in upper case.
 */
export type NamingConvention = 'hasura-default' | 'graphql-default'

/** Types that every GraphQL schema has. */
export const GRAPHQL_TYPES: ReadonlySet<string> = new Set([
  'Int',
  'Float',
  'String',
  'Boolean',
  'ID',
  'query_root',
  'mutation_root',
  'subscription_root',
  'order_by',
  'cursor_ordering',
])

/** The root fields that GraphQL can give a table: the permission that each needs, and its name for a table `t`. */
export const ROOT_FIELDS = {
  select: { needs: 'select', byKey: false, name: (t: string) => t },
  select_by_pk: { needs: 'select', byKey: true, name: (t: string) => `${t}_by_pk` },
  select_aggregate: { needs: 'select', byKey: false, name: (t: string) => `${t}_aggregate` },
  insert: { needs: 'insert', byKey: false, name: (t: string) => `insert_${t}` },
  insert_one: { needs: 'insert', byKey: false, name: (t: string) => `insert_${t}_one` },
  update: { needs: 'update', byKey: false, name: (t: string) => `update_${t}` },
  update_by_pk: { needs: 'update', byKey: true, name: (t: string) => `update_${t}_by_pk` },
  update_many: { needs: 'update', byKey: false, name: (t: string) => `update_${t}_many` },
  delete: { needs: 'delete', byKey: false, name: (t: string) => `delete_${t}` },
  delete_by_pk: { needs: 'delete', byKey: true, name: (t: string) => `delete_${t}_by_pk` },
} as const
export type RootFieldKind = keyof typeof ROOT_FIELDS
export const ROOT_FIELD_KINDS = Object.keys(ROOT_FIELDS) as readonly RootFieldKind[]

/**
 * Returns the name of a root field of a table.
 * @param custom the table's own name in GraphQL, which no convention changes
 */
export function rootFieldName(
  kind: RootFieldKind,
  table: TableRef,
  custom: string | undefined,
  naming: NamingConvention | undefined,
): string {
  const { name } = ROOT_FIELDS[kind]
  if (naming !== 'graphql-default') return name(custom ?? graphqlName(table))
  const unit = custom ?? camelCase(graphqlName(table))
  const words = name('\0').split('_')
  return words
    .map((word, i) => (i === 0 ? word : upperFirst(word)).replace('\0', i === 0 ? unit : upperFirst(unit)))
    .join('')
}

/** Returns the name of a tracked function's root field. */
export function functionFieldName(
  { customName, ...ref }: TableRef & { readonly customName?: string },
  naming: NamingConvention | undefined,
): string {
  return customName ?? (naming === 'graphql-default' ? camelCase(graphqlName(ref)) : graphqlName(ref))
}

/** `created_at` is `createdAt`. An underscore at the beginning stays. */
export function camelCase(name: string): string {
  const [first = '', ...others] = wordsOf(name)
  const made = first.slice(0, 1).toLowerCase() + first.slice(1) + others.map(upperFirst).join('')
  return isGraphqlName(made) ? made : name
}

/** `order_item` is `OrderItem`. */
export const pascalCase = (name: string): string => wordsOf(name).map(upperFirst).join('')

const wordsOf = (name: string): readonly string[] =>
  name
    .replace(/^_(?=.)/, '\0')
    .split('_')
    .map((word) => word.replace('\0', '_'))
export const upperFirst = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1)

export const isGraphqlName = (name: string): boolean => /^(?!__)[_A-Za-z]\w*$/.test(name)

/** Returns whether an enum value can have this name: it must not look like a value of another type. */
export const isEnumName = (name: string): boolean => isGraphqlName(name) && !['true', 'false', 'null'].includes(name)

/** Returns whether a table with this name needs another in GraphQL. */
export const isReserved = (name: string): boolean => !isGraphqlName(name) || name === '_' || GRAPHQL_TYPES.has(name)

/**
 * Makes a name of GraphQL from another: `Order Items` becomes `Order_Items`, `2nd` becomes `_2nd`, and a name that is
 * taken gets a number.
 */
export function madeName(name: string, isTaken: (name: string) => boolean): string {
  const base = name
    .replaceAll(/\W/g, '_')
    .replace(/^(?=\d)/, '_')
    .replace(/^__+/, '_')
  // Types of a table `_` would begin with two underscores, which only GraphQL itself may use.
  let free = base === '_' ? '_1' : base
  for (let number = 2; isTaken(free); number++) free = base === '_' ? `_${number}` : `${base}_${number}`
  return free
}

/** The name of a table or function in GraphQL unless it was given another: `schema_t` outside `public`. */
export const graphqlName = ({ schema, name }: TableRef): string => (schema === 'public' ? name : `${schema}_${name}`)
