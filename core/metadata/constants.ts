import pg, { type ClientBase } from 'pg'
import { unexpectedPayload } from '../errors.js'
import { operandsOf } from '../plan/boolexp.js'
import { placeOf } from '../plan/encode.js'
import type { BoolExp, Operand, SqlType } from '../ir.js'
import { bind } from '../sql/bind.js'
import { emitConstants } from '../sql/emit.js'
import type { CatalogData } from '../catalog/catalog.js'
import type { Permission } from './permission.js'

/** A value in the metadata that PostgreSQL must be able to read as its type: the label of an enum, the name of a table. */
export type Constant = Extract<Operand, { readonly kind: 'const' }>

/** Which constants PostgreSQL can read, by `constantKey`, in one state of the database. */
export interface Judged {
  readonly sound: ReadonlySet<string>
  /** The others, with its errors. */
  readonly refused: ReadonlyMap<string, string>
}
export const UNJUDGED: Judged = { sound: new Set(), refused: new Map() }

const constantKey = ({ value, type: { schema, name, srid, regex } }: Constant): string =>
  JSON.stringify([schema, name, srid, regex, value])

const known = new WeakMap<BoolExp, readonly Constant[]>()

/** Returns the constants of a condition. Any text is a text. */
export function constantsIn(exp: BoolExp): readonly Constant[] {
  let found = known.get(exp)
  if (!found) known.set(exp, (found = constantsAmong(operandsOf(exp))))
  return found
}

export const constantsAmong = (operands: readonly Operand[]): readonly Constant[] =>
  operands.filter((each) => each.kind === 'const' && each.value !== null && !takesAnyText(each.type)) as Constant[]
const takesAnyText = ({ kind, name, regex }: SqlType): boolean =>
  kind === 'text' && regex === undefined && name !== 'jsonpath' && name !== 'regconfig'

/** Returns the constants of the values that a permission sets. */
export const presetsOf = ({ permission }: Permission): readonly Constant[] =>
  'set' in permission ? constantsAmong(permission.set.map(({ to }) => to)) : []

/** Returns the constants of all valid permissions. */
export function constantsOf({ tables, filters }: CatalogData): readonly Constant[] {
  const used = new Set<number | undefined>()
  const presets: Operand[] = []
  for (const { insert, select, update, delete: remove } of tables.flatMap(({ permissions }) => permissions)) {
    for (const place of [insert?.check, select?.filter, update?.filter, update?.check, remove?.filter]) used.add(place)
    for (const { to } of [...(insert?.set ?? []), ...(update?.set ?? [])]) presets.push(to)
  }
  const exps = [...used].flatMap((place) => filters[place ?? -1] ?? [])
  return [...exps.flatMap(constantsIn), ...constantsAmong(presets)]
}

/**
 * @param path of the definition
 * @throws ServiceError 400 `unexpected-payload`: one of some constants is known to be refused
 */
export function refuseRefused(constants: readonly Constant[], { refused }: Judged, path = '$'): void {
  for (const each of refused.size > 0 ? constants : []) {
    const reason = refused.get(constantKey(each))
    if (reason !== undefined) throw unexpectedPayload(reason, path + (placeOf(each)?.slice(1) ?? ''))
  }
}

/** Asks PostgreSQL about the constants that are not judged yet. The client must be in a transaction. */
export async function judge(client: ClientBase, constants: readonly Constant[], before: Judged): Promise<Judged> {
  const asked = new Map(constants.map((each) => [constantKey(each), each]))
  for (const key of asked.keys()) if (before.sound.has(key) || before.refused.has(key)) asked.delete(key)
  if (asked.size === 0) return before
  const refused = new Map(await refusedAmong(client, [...asked]))
  return {
    sound: new Set([...before.sound, ...[...asked.keys()].filter((key) => !refused.has(key))]),
    refused: new Map([...before.refused, ...refused]),
  }
}

type Keyed = readonly [key: string, constant: Constant]
type Reasons = readonly (readonly [key: string, reason: string])[]
/** Maximum number of constants in one statement. */
const BATCH = 1000

/** PostgreSQL names only the first constant that it cannot read, so the others are searched in halves. */
async function refusedAmong(client: ClientBase, all: readonly Keyed[]): Promise<Reasons> {
  const halves = async (): Promise<Reasons> => {
    const middle = Math.min(BATCH, Math.ceil(all.length / 2))
    return [...(await refusedAmong(client, all.slice(0, middle))), ...(await refusedAmong(client, all.slice(middle)))]
  }
  if (all.length > BATCH) return halves()
  const error = await errorOf(
    client,
    all.map(([, constant]) => constant),
  )
  if (!error) return []
  if (all.length > 1) return halves()
  return error.code === NOT_YET ? [] : all.map(([key]) => [key, error.message])
}
/** A label of an enum that this transaction added. It can be used from the next one on. */
const NOT_YET = '55P04'

/** Returns the error of PostgreSQL if it cannot read the constants. The transaction continues. */
async function errorOf(client: ClientBase, constants: readonly Constant[]): Promise<pg.DatabaseError | undefined> {
  const { text, params } = emitConstants(constants)
  await client.query('savepoint constants')
  try {
    await client.query(text, bind(params, { values: [], variables: new Map() }))
    await client.query('release savepoint constants')
    return undefined
  } catch (cause) {
    if (!(cause instanceof pg.DatabaseError) || !isAboutValue(cause.code)) throw cause
    await client.query('rollback to savepoint constants; release savepoint constants')
    return cause
  }
}

/**
 * Returns whether a statement that only reads constants failed because of one: invalid data (22, and XX from extensions),
 * a name that does not exist or may not be used (42, 3F), or what a type does not support (0A, 23).
 */
const isAboutValue = (state = ''): boolean => /^(0A|22|23|3F|42|XX)/.test(state) || state === NOT_YET
