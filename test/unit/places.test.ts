import assert from 'node:assert/strict'
import t from 'tap'
import { type Json, type JsonObject, parseJson, rowsOf, Rows, stringifyJson } from '../../core/json/parse.js'
import { fill, type Place } from '../../core/parameters/places.js'
import fc from '../kit/property.js'

const PARTS = { objects: 'rows' } as const
const cell = fc.oneof(
  { depthSize: 'small' },
  fc.jsonValue({ maxDepth: 2 }).filter((value) => !JSON.stringify(value).includes('\\u0000')),
  fc.constantFrom('a', 'b').map((name) => ({ $ref: name })),
)
const rows = fc.array(fc.dictionary(fc.constantFrom('id', 'x.y', 'ü', '"'), cell), { minLength: 1, maxLength: 4 })
const row = fc.dictionary(
  fc.constantFrom('id', 'items', '[0]'),
  fc.oneof(
    cell,
    rows.map((data) => ({ data })),
    rows.map((data) => ({ data, on_conflict: { action: 'ignore' } })),
  ),
)

const isMark = (object: JsonObject): boolean => '$ref' in object
const asRows = (text: string): Json => (parseJson(`{"objects":${text}}`, undefined, /./) as JsonObject)['objects']!

/** Replaces marks by their names. */
function filled(objects: Json): { readonly objects: unknown; readonly places: readonly Place[] } {
  const places: Place[] = []
  const replace = (mark: JsonObject, place: Place): Json => {
    places.push(place)
    return [mark['$ref'] as string]
  }
  const { args } = fill({ args: { objects } }, PARTS, {}, { is: isMark, replace })
  const result = (args as JsonObject)['objects']!
  const asWhole = result instanceof Rows ? result : rowsOf(result as Json[], '$')
  return { objects: JSON.parse(stringifyJson(asWhole)), places }
}

t.test('rows that are text are filled as parsed ones are, at the same places', async (t) => {
  let marks = 0
  fc.assert(
    fc.property(fc.array(row, { minLength: 1, maxLength: 5 }), fc.constantFrom(0, 1), (objects, indent) => {
      const text = JSON.stringify(objects, undefined, indent)
      const asText = filled(asRows(text))
      const parsed = filled(parseJson(text))

      assert.deepEqual(asText, parsed)
      marks += parsed.places.length
    }),
  )
  t.ok(marks > 100, 'many of them are marks')
})

t.test('the rest of rows that are text stays as it was written', async (t) => {
  const written = '[ {"a":1.10 , "b": {"$ref":"a"}}, {"a" : {"z":1e400}} ]'
  const { args } = fill({ args: { objects: asRows(written) } }, PARTS, {}, { is: isMark, replace: () => 'x' })

  t.equal(((args as JsonObject)['objects'] as Rows).source, '[ {"a":1.10 , "b": "x"}, {"a" : {"z":1e400}} ]')
})
