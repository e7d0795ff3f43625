import type { SqlType } from '../ir.js'
import type { Json } from '../json/parse.js'
import { encode } from '../plan/encode.js'
import type { End, Source } from '../plan/read-set.js'
import { bind, type Bindings } from '../sql/bind.js'
import type { WatchedSource } from './data.js'

/** Values of one list. With more of them, every row may matter. */
const MOST = 100

/** Returns a source with the values of a request, or without a way if these do not tell which rows matter. */
export function watchedSource({ table, way, end }: Source, bindings: Bindings): WatchedSource {
  const values = end && valuesOf(end, bindings)
  return way && values ? { table, way, values } : { table }
}

function valuesOf({ op, to }: End, bindings: Bindings): readonly string[] | undefined {
  const texts = op === 'eq' ? bind([to], bindings) : elementsOf(to, bindings)
  const type = op === 'eq' ? to.type : to.type.element
  const printed = type && texts?.map((text) => (text === null ? undefined : printedAs(text, type)))
  return printed?.every((each) => each !== undefined) ? printed : undefined
}

function elementsOf({ type: { element }, ...to }: End['to'], { values }: Bindings): readonly string[] | undefined {
  const list: Json | undefined = to.kind === 'value' ? values[to.slot] : undefined
  if (to.kind !== 'value' || !element || !Array.isArray(list) || list.length > MOST) return undefined
  if (list.some((each) => each === null)) return undefined
  return list.map((each: Json) => encode(each, element, to.path))
}

/** Returns a value as PostgreSQL prints it: of several texts that it reads as the same value, the same one. */
function printedAs(text: string, { name, kind }: SqlType): string | undefined {
  if (kind === 'int2' || kind === 'int4' || kind === 'int8') return WHOLE.test(text) ? String(BigInt(text)) : undefined
  if (name !== 'uuid') return text
  const digits = text.toLowerCase().replaceAll(/[-{}]/g, '')
  return UUID.test(digits) ? digits.replace(UUID, '$1-$2-$3-$4-$5') : undefined
}
const WHOLE = /^-?[0-9]{1,20}$/
const UUID = /^([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/
