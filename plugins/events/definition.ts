import {
  at,
  isObject,
  type Json,
  type JsonObject,
  notExists,
  parseFailed,
  refuseOtherKeys,
  unexpectedPayload,
} from 'rowhouse/plan'
import { ROLE_NAME } from 'rowhouse'

/** What makes events of the changes of a table, and what becomes of them: the metadata of a trigger, by its name. */
export interface Trigger {
  readonly on: Readonly<Partial<Record<Operation, On>>>
  /** Columns that are read when the event is delivered, as in `select`. */
  readonly payload?: readonly Json[]
  readonly to: Target
  /** Columns. An event waits until those before it with the same values are done or have failed. */
  readonly order_by?: readonly string[]
  readonly retry?: Retry
}
export type Operation = 'insert' | 'update' | 'delete'
export interface On {
  /** Of an update: one of them must differ. */
  readonly columns?: readonly string[]
  /** A BoolExp about the row as it is, or of a delete, as it was. */
  readonly when?: Json
}
export interface Retry {
  /** Hours until an event that cannot be delivered has failed. */
  readonly for_hours?: number
}
export type Target =
  | { readonly template: TemplateTarget }
  /** Name that a plugin gave to its handler. */
  | { readonly plugin: string }
  /** Name of a provider of events. */
  | { readonly provider: string }
export interface TemplateTarget {
  readonly name: string
  /** Arguments, in which `{"$event": "new.id"}` stands for a part of the event. */
  readonly args?: JsonObject
  readonly role: string
}

export const OPERATIONS: readonly Operation[] = ['insert', 'update', 'delete']
/** The keys of an event, from which references begin. */
export const EVENT_KEYS = ['id', 'trigger', 'table', 'op', 'key', 'old', 'new', 'row', 'session', 'at'] as const

const NAME = /^[A-Za-z0-9_.-]{1,64}$/
const MOST_TRIGGERS = 50
const MOST_HOURS = 24 * 30

/** Reads the triggers of a table, by name. @throws ServiceError 400 with a path below `$` */
export function readTriggers(definition: Json): ReadonlyMap<string, Trigger> {
  const all = Object.entries(objectAt(definition, '$'))
  if (all.length === 0) throw parseFailed('expecting triggers by name', '$')
  if (all.length > MOST_TRIGGERS) throw unexpectedPayload(`a table may have at most ${MOST_TRIGGERS} triggers`, '$')
  return new Map(all.map(([name, each]) => [readName(name, at('$', name)), readTrigger(each, at('$', name))]))
}

export function readName(name: Json | undefined, path: string): string {
  if (typeof name === 'string' && NAME.test(name)) return name
  throw parseFailed('a name has 1 to 64 of A-Z a-z 0-9 _ . -', path)
}

function readTrigger(given: Json, path: string): Trigger {
  const trigger = objectAt(given, path)
  refuseOtherKeys(trigger, ['on', 'payload', 'to', 'order_by', 'retry'], path)
  const on = objectAt(trigger['on'], `${path}.on`)
  refuseOtherKeys(on, OPERATIONS, `${path}.on`)
  if (Object.keys(on).length === 0) throw parseFailed('expecting insert, update or delete', `${path}.on`)
  for (const [operation, each] of Object.entries(on)) readOn(operation, each, at(`${path}.on`, operation))
  const { payload, order_by: orderBy } = trigger
  if (payload !== undefined && !(Array.isArray(payload) && payload.length > 0)) {
    throw parseFailed('expecting columns, as in select', `${path}.payload`)
  }
  if (orderBy !== undefined) columnsAt(orderBy, `${path}.order_by`)
  readTarget(trigger['to'], `${path}.to`)
  readRetry(trigger['retry'], `${path}.retry`)
  return trigger as unknown as Trigger
}

function readOn(operation: string, given: Json, path: string): void {
  const on = objectAt(given, path)
  refuseOtherKeys(on, operation === 'update' ? ['columns', 'when'] : ['when'], path)
  if (on['columns'] !== undefined) columnsAt(on['columns'], `${path}.columns`)
}

/**
 * Checks what events are delivered to.
 * @param refers whether arguments may refer to the event
 * @throws ServiceError 400
 */
export function readTarget(given: Json | undefined, path: string, refers = true): Target {
  const target = objectAt(given, path)
  refuseOtherKeys(target, ['template', 'plugin', 'provider'], path)
  if (Object.keys(target).length !== 1) throw parseFailed('expecting one of template, plugin and provider', path)
  const { template, plugin, provider } = target
  if (plugin !== undefined) readName(plugin, `${path}.plugin`)
  if (provider !== undefined) readName(provider, `${path}.provider`)
  if (template !== undefined) {
    const here = `${path}.template`
    const { name, args = {}, role, ...others } = objectAt(template, here)
    refuseOtherKeys(others, [], here)
    if (typeof name !== 'string') throw parseFailed('expecting the name of a template', `${here}.name`)
    if (typeof role !== 'string' || !ROLE_NAME.test(role)) throw parseFailed('expecting a role', `${here}.role`)
    const all = objectAt(args, `${here}.args`)
    if (refers) filled(all, undefined, `${here}.args`)
  }
  return target as unknown as Target
}

/** What targets can be, here and now. */
export interface Targets {
  readonly providers: readonly string[]
  readonly templates: readonly { readonly name: string }[]
}

/** @throws ServiceError 400 for a template or provider that does not exist */
export function refuseUnknown(
  target: Json | Target | undefined,
  { providers, templates }: Targets,
  path: string,
): void {
  const { provider, template } = isObject(target) ? (target as JsonObject) : {}
  if (typeof provider === 'string' && !providers.includes(provider)) {
    const names = providers.join(', ') || 'none'
    throw notExists(`no event provider "${provider}" is configured (configured: ${names})`, `${path}.provider`)
  }
  const name = isObject(template) ? template['name'] : undefined
  if (typeof name === 'string' && !templates.some((each) => each.name === name)) {
    throw notExists(`query-template "${name}" does not exist`, `${path}.template.name`)
  }
}

export function readRetry(given: Json | undefined, path: string): Retry {
  const retry = given === undefined ? {} : objectAt(given, path)
  refuseOtherKeys(retry, ['for_hours'], path)
  const hours = retry['for_hours']
  if (hours !== undefined && !(typeof hours === 'number' && hours >= 0 && hours <= MOST_HOURS)) {
    throw parseFailed(`expecting a number of hours, from 0 to ${MOST_HOURS}`, `${path}.for_hours`)
  }
  return retry as Retry
}

/**
 * Returns a value with parts of an event instead of references. A part that the event does not have is null.
 * @param event absent: only checks the references
 * @throws ServiceError 400 for a reference that begins with no key of an event
 */
export function filled(value: Json, event: JsonObject | undefined, path: string): Json {
  if (Array.isArray(value)) return value.map((each, i) => filled(each, event, at(path, i)))
  if (!isObject(value)) return value
  const keys = Object.keys(value)
  if (keys.length !== 1 || keys[0] !== '$event') {
    return Object.fromEntries(keys.map((key) => [key, filled(value[key] as Json, event, at(path, key))]))
  }
  const reference = value['$event']
  const parts = typeof reference === 'string' ? reference.split('.') : reference
  const here = at(path, '$event')
  if (!Array.isArray(parts) || !parts.every((part) => typeof part === 'string')) {
    throw parseFailed('expecting a path such as "new.id", or a list of its parts', here)
  }
  if (!EVENT_KEYS.some((key) => key === parts[0])) {
    throw parseFailed(`a part of an event begins with one of ${EVENT_KEYS.join(', ')}`, here)
  }
  return (parts as string[]).reduce<Json>(
    (part, key) => (isObject(part) && Object.hasOwn(part, key) ? (part[key] as Json) : null),
    event ?? null,
  )
}

function objectAt(value: Json | undefined, path: string): JsonObject {
  if (isObject(value)) return value
  throw parseFailed('expecting an object', path)
}

function columnsAt(value: Json, path: string): void {
  if (Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === 'string')) return
  throw parseFailed('expecting column names', path)
}
