import { signal } from '@preact/signals'
import { BigNumber, type Json, type JsonObject, parse, textOf } from '../../json.js'
import { type Action, type Permission, type Place, placeKey } from './rules.js'

/** A permission as the form has it. */
export interface Draft {
  readonly columns: '*' | readonly string[]
  readonly computed: readonly string[]
  /** Rules as JSON. */
  readonly filter: string
  readonly check: string
  readonly presets: readonly Preset[]
  readonly limit: string
  readonly flags: Readonly<Record<Flag, boolean>>
  readonly comment: string
}
export interface Preset {
  readonly column: string
  /** JSON, or a text as it is. */
  readonly value: string
}
export type Flag = 'allow_aggregations' | 'allow_upsert' | 'backend_only'

/** Which parts a permission for an action has. */
export const HAS: Readonly<Record<Action, ReadonlySet<keyof Draft | Flag>>> = {
  select: new Set(['columns', 'computed', 'filter', 'limit', 'allow_aggregations']),
  insert: new Set(['columns', 'check', 'presets', 'allow_upsert', 'backend_only']),
  update: new Set(['columns', 'filter', 'check', 'presets', 'backend_only']),
  delete: new Set(['filter', 'backend_only']),
}

/** Changes that are not saved, by place. They stay while the console is open. */
export const drafts = signal<ReadonlyMap<string, Draft>>(new Map())

export function keepDraft(place: Place, draft: Draft | undefined): void {
  const next = new Map(drafts.value)
  if (draft) next.set(placeKey(place), draft)
  else next.delete(placeKey(place))
  drafts.value = next
}

/** Returns the form of a permission. A new one allows no column. */
export function draftOf(permission: Permission | undefined, action: Action): Draft {
  const { definition = {}, comment = null } = permission ?? {}
  const { columns = permission && action === 'insert' ? '*' : [], filter, check, set, limit } = definition
  return {
    columns: columns === '*' ? '*' : ((columns ?? []) as readonly string[]),
    computed: (definition['computed_fields'] ?? []) as readonly string[],
    filter: pretty(filter ?? {}),
    check: action === 'update' && (check ?? null) === null ? '' : pretty(check ?? {}),
    presets: Object.entries((set ?? {}) as JsonObject).map(([column, value]) => ({ column, value: presetText(value) })),
    limit: textOf(limit),
    flags: {
      allow_aggregations: definition['allow_aggregations'] === true,
      allow_upsert: definition['allow_upsert'] === true || definition['allow_conflict_update'] === true,
      backend_only: definition['backend_only'] === true,
    },
    comment: comment ?? '',
  }
}

/**
 * Returns the permission of a form.
 * @throws SyntaxError if a rule is not JSON
 */
export function permissionOf(draft: Draft, action: Action): Permission {
  const has = HAS[action]
  const { columns, computed, filter, check, presets, limit, flags, comment } = draft
  const set = Object.fromEntries(presets.flatMap(({ column, value }) => (column ? [[column, presetValue(value)]] : [])))
  const definition: JsonObject = {
    ...(has.has('columns') && { columns }),
    ...(has.has('computed') && computed.length > 0 && { computed_fields: computed }),
    ...(has.has('filter') && { filter: parse(filter) }),
    ...(has.has('check') && check.trim() !== '' && { check: parse(check) }),
    ...(has.has('presets') && presets.length > 0 && { set }),
    ...(has.has('limit') && limit.trim() !== '' && { limit: Number(limit) }),
    ...Object.fromEntries(Object.entries(flags).filter(([flag, isOn]) => isOn && has.has(flag as Flag))),
  }
  return { definition, comment: comment === '' ? null : comment }
}

/** Whether two forms mean the same. */
export function isSame(a: Draft, b: Draft): boolean {
  const plain = (draft: Draft) =>
    JSON.stringify({ ...draft, filter: compact(draft.filter), check: compact(draft.check) })
  return plain(a) === plain(b)
}

const compact = (text: string): string => text.replaceAll(/\s+/g, '')

/** Returns JSON with what fits on one line. */
export function pretty(value: Json, indent = ''): string {
  if (typeof value !== 'object' || value === null || value instanceof BigNumber) return JSON.stringify(value)
  const isList = Array.isArray(value)
  const parts = (inner: string) =>
    isList
      ? (value as readonly Json[]).map((part) => pretty(part, inner))
      : Object.entries(value).map(([key, part]) => `${JSON.stringify(key)}: ${pretty(part as Json, inner)}`)
  const [open, close] = isList ? '[]' : '{}'
  const line = `${open}${parts('').join(', ')}${close}`
  if (indent.length + line.length <= WIDTH && !line.includes('\n')) return line
  const inner = `${indent}  `
  return `${open}\n${inner}${parts(inner).join(`,\n${inner}`)}\n${indent}${close}`
}
/** Characters of a line in the form. */
const WIDTH = 40

/** Text of a value that is not read as something else. */
function presetText(value: Json | undefined): string {
  return typeof value === 'string' && typeof presetValue(value) === 'string' ? value : JSON.stringify(value ?? null)
}

function presetValue(text: string): Json {
  try {
    return parse(text)
  } catch {
    return text
  }
}

/** Returns the JSON of a text, or undefined while somebody is still writing it. */
export function parsed(text: string): Json | undefined {
  try {
    return parse(text)
  } catch {
    return undefined
  }
}
