import { Ajv } from 'ajv'
import t from 'tap'
import { fastValidator } from '../../core/host/fast-validate.js'
import type { Schema } from '../../core/json/schema.js'
import { validate } from '../../core/host/validate.js'
import fc, { cases } from '../kit/property.js'

const KEYS = ['a', 'b', 'c'] as const
const small = fc.integer({ min: 0, max: 3 })
const text = fc.constantFrom('', 'x', 'xy', '💧', 'x💧y', '1')
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined })
/** Without the keywords that are undefined. */
const keywords = (model: Record<string, fc.Arbitrary<unknown>>) =>
  fc.record(model).map((all) => Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)))

const { schema } = fc.letrec<{ schema: object; value: unknown }>((tie) => ({
  schema: fc.oneof(
    { depthSize: 'small' },
    keywords({
      type: fc.constantFrom('number', 'integer'),
      minimum: maybe(small),
      maximum: maybe(small),
      default: maybe(small),
      description: maybe(text),
    }),
    keywords({
      type: fc.constant('string'),
      minLength: maybe(small),
      maxLength: maybe(small),
      pattern: maybe(fc.constantFrom('^x', '[')),
      enum: maybe(fc.uniqueArray(text, { maxLength: 3 })),
      default: maybe(text),
      secret: maybe(fc.boolean()),
    }),
    keywords({ type: fc.constantFrom('boolean', 'null', 'text', ['string', 'null']) }),
    keywords({
      type: fc.constant('array'),
      items: tie('schema'),
      minItems: maybe(small),
      maxItems: maybe(small),
      uniqueItems: maybe(fc.boolean()),
    }),
    keywords({
      type: fc.constant('object'),
      properties: maybe(fc.dictionary(fc.constantFrom(...KEYS), tie('schema'), { maxKeys: 3, noNullPrototype: true })),
      required: maybe(fc.uniqueArray(fc.constantFrom(...KEYS), { maxLength: 2 })),
      additionalProperties: maybe(fc.oneof(fc.boolean(), tie('schema'))),
      minProperties: maybe(small),
      default: maybe(fc.constant({})),
    }),
    keywords({ anyOf: fc.array(tie('schema'), { maxLength: 3 }) }),
    keywords({ minimum: maybe(small) }),
  ),
  value: fc.constant(undefined),
}))
const value = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom(null, true, 0, 1, 2, 5, -1, 1.5, Number.NaN, Infinity),
    text,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...KEYS, 'd'), tie('value'), { maxKeys: 3, noNullPrototype: true }),
  ),
})).value

t.test('a value fits when Ajv finds nothing wrong with it, and the same defaults are filled in', async (t) => {
  const verdicts = { fits: 0, refused: 0, unknown: 0 }

  fc.assert(
    fc.property(schema, value, (one, given) => {
      const ajv = new Ajv({ useDefaults: true, strict: true, logger: false }).addKeyword('secret')
      // At its top Ajv takes no default.
      const [ours, theirs] = [structuredClone({ given }), structuredClone({ given })]
      const whole = { type: 'object', properties: { given: one as Schema } } as const
      const check = fastValidator(whole)
      if (!check) return void verdicts.unknown++
      const verdict = check(ours)
      verdicts[verdict ? 'fits' : 'refused']++
      const valid = ajv.compile(whole)(theirs)
      // Of objects that must differ, only Ajv knows whether they do.
      if (verdict || !JSON.stringify(one).includes('"uniqueItems":true')) t.equal(verdict, valid)
      if (verdict) t.strictSame(ours, theirs)
    }),
    { numRuns: cases(1000) },
  )

  for (const count of Object.values(verdicts)) t.ok(count > cases(1000) / 100, JSON.stringify(verdicts))
})

t.test('a schema that is none is refused by Ajv, in its words', async (t) => {
  t.same(validate({ type: 'string', maxLenght: 3 } as never, 'x'), {
    ok: false,
    issues: [{ keys: [], message: 'its schema is not valid: strict mode: unknown keyword: "maxLenght"' }],
  })
  t.match(validate({ type: 'object', properties: { a: { pattern: 'x', type: 'integer' } } } as never, {}), {
    ok: false,
  })
})

t.test('what Ajv would refuse as a schema is left to Ajv', async (t) => {
  const wrong: readonly object[] = [
    { type: 'string', secret: 'yes' },
    { type: 'string', description: 5 },
    { type: 'string', minLength: -1 },
    { type: 'string', maxLength: 1.5 },
    { type: 'array', items: {}, minItems: Number.NaN },
    { type: 'string', enum: ['a', 'a'] },
    { type: 'object', properties: { a: {} }, required: ['a', 'a'] },
    { type: 'object', properties: { a: { type: 'string', default: () => 'a' } } },
  ]
  for (const schema of wrong) t.equal(fastValidator(schema as Schema), undefined, JSON.stringify(schema))
})
