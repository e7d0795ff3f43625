import { ask, query } from '../../api.js'
import type { Json, JsonObject } from '../../json.js'
import { isAdmin } from '../../session.js'

/** A JSON Schema, as far as forms read it. */
export interface Schema {
  readonly type?: string | readonly string[]
  readonly format?: string
  readonly enum?: readonly Json[]
  readonly items?: Schema
  readonly description?: string
  readonly default?: Json
  readonly properties?: Readonly<Record<string, Schema>>
}

export interface Parameter {
  readonly name: string
  readonly required: boolean
  readonly schema: Schema
}

/** A template that the caller may run. */
export interface Runnable {
  /** Type of the query, e.g. `select`. */
  readonly type: string
  readonly parameters: readonly Parameter[]
  /** Whether it only reads, so that GET runs it. */
  readonly reads: boolean
  /** Place in the OpenAPI page, e.g. `#/select/get_late_orders`. */
  readonly place: string
}

export interface Template {
  readonly name: string
  readonly comment: string
  /** Absent if the caller may not run it, or if it does not fit the tables any more. */
  readonly runnable?: Runnable | undefined
  /** The stored query, for an admin. */
  readonly definition?: JsonObject | undefined
}

/** Returns the templates that the caller may run and, for an admin, all that are stored. */
export async function readTemplates(signal: AbortSignal): Promise<readonly Template[]> {
  const [{ paths }, stored] = await Promise.all([
    ask<Document>('/v1/openapi.json', { signal }),
    isAdmin.value ? readStored(signal) : [],
  ])
  const found = new Map<string, Template>()
  for (const { template_name: name, template_defn: definition, comment } of stored)
    found.set(name, { name, comment: comment ?? '', definition })
  for (const [path, { get, post }] of Object.entries(paths)) {
    const name = decodeURIComponent(path.slice(ADDRESS.length))
    const [type = ''] = post.tags
    const { schema } = post.requestBody.content['application/json']
    const parameters = Object.entries(schema.properties).map(([each, of]) => {
      return { name: each, required: schema.required?.includes(each) ?? false, schema: of }
    })
    const place = `#/${encodeURIComponent(type)}/${encodeURIComponent((get ?? post).operationId)}`
    const runnable = { type, parameters, reads: get !== undefined, place }
    found.set(name, { name, comment: post.summary ?? '', definition: found.get(name)?.definition, runnable })
  }
  return [...found.values()].sort((a, b) => a.name.localeCompare(b.name))
}

const ADDRESS = '/v1/template/'
export const addressOf = (name: string): string => ADDRESS + encodeURIComponent(name)

interface Method {
  readonly summary?: string
  readonly tags: readonly string[]
  readonly operationId: string
}
interface Body {
  readonly schema: { readonly properties: Readonly<Record<string, Schema>>; readonly required?: readonly string[] }
}
interface Document {
  readonly paths: Readonly<Record<string, PathItem>>
}
interface PathItem {
  readonly get?: Method
  readonly post: Method & { readonly requestBody: { readonly content: { readonly 'application/json': Body } } }
}

interface Stored {
  readonly template_name: string
  readonly template_defn: JsonObject
  readonly comment: string | null
}
const TABLE = { schema: 'svc_catalog', name: 'svc_query_template' }
const COLUMNS = ['template_name', 'template_defn', 'comment']

const readStored = (signal?: AbortSignal, where: JsonObject = {}): Promise<readonly Stored[]> =>
  query('select', { table: TABLE, columns: COLUMNS, where }, { as: null, signal })

/** What an admin writes about a template. */
interface Draft {
  readonly name: string
  readonly comment: string
  readonly definition: Json
}

/**
 * Stores a template under its new name, comment and definition, all or nothing.
 * @param before the template as it was read; undefined for a new one
 * @throws Failure, and Error if another admin has changed it since
 */
export async function save(before: Template | undefined, { name, comment, definition }: Draft): Promise<void> {
  const args = { name, template: definition, comment: comment === '' ? null : comment }
  if (!before) {
    await query('create_query_template', args, { as: null })
    return
  }
  const [now] = await readStored(undefined, { template_name: { $eq: before.name } })
  if (!now) throw new Error('another admin has deleted or renamed this template; copy your text and reload the page')
  if (JSON.stringify(now.template_defn) !== JSON.stringify(before.definition) || (now.comment ?? '') !== before.comment)
    throw new Error('another admin has changed this template; copy your text and reload the page')
  const isOnlyComment = name === before.name && JSON.stringify(definition) === JSON.stringify(before.definition)
  if (isOnlyComment) await query('set_query_template_comment', { name, comment: args.comment }, { as: null })
  else
    await query(
      'bulk',
      [
        { type: 'drop_query_template', args: { name: before.name } },
        { type: 'create_query_template', args },
      ],
      { as: null },
    )
}

export const drop = (name: string): Promise<unknown> => query('drop_query_template', { name }, { as: null })
