import { isObject, type Json, type JsonObject } from 'rowhouse/plan'

/** Metadata for `replace_metadata`. */
export interface Metadata {
  readonly tables: JsonObject[]
  readonly functions: JsonObject[]
  readonly query_templates: JsonObject[]
  readonly inherited_roles: JsonObject[]
}

/** Returns a name as an export has it: a text for the schema `public`. */
export function mapName(name: Json | undefined): Json {
  if (!isObject(name)) return name ?? null
  return name['schema'] === undefined || name['schema'] === 'public' ? (name['name'] ?? null) : name
}

/** Returns a name for the report. */
export function labelOf(name: Json | undefined): string {
  const mapped = mapName(name)
  return isObject(mapped) ? `${textOf(mapped['schema'])}.${textOf(mapped['name'])}` : textOf(mapped)
}

export const textOf = (value: Json | undefined): string =>
  typeof value === 'string' ? value : JSON.stringify(value ?? null)
export const listOf = (value: Json | undefined): readonly Json[] => (Array.isArray(value) ? value : [])
export const objects = (value: Json | undefined): readonly JsonObject[] =>
  listOf(value).filter((each) => isObject(each))

/** Returns the other table of a relationship, if the definition names it. */
export function remoteOf({ using }: JsonObject): Json | undefined {
  const { foreign_key_constraint_on: foreign, manual_configuration: manual } = using as JsonObject
  if (isObject(manual)) return manual['remote_table']
  return isObject(foreign) ? foreign['table'] : undefined
}
