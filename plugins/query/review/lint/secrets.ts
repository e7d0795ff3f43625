import { type Column, type SqlType, tableName } from 'rowhouse/plan'
import type { Finding } from './finding.js'
import { nameOf, type Subject } from './subject.js'

/** The role of callers without credentials. */
const ANONYMOUS = 'anonymous'

/** Finds columns with the names of secrets that anonymous callers may read. */
export function readableSecrets(subject: Subject): readonly Finding[] {
  const { table, role, permissions } = subject
  const { select } = permissions
  if (role !== ANONYMOUS || !select || table.system) return []
  const computed = table.computedFields.flatMap(({ name, gives }) =>
    'type' in gives && select.computedFields.includes(name) ? [{ name, type: gives.type }] : [],
  )
  const columns = table.columns.filter(({ name }) => select.columns.includes(name))
  return [...columns, ...computed].filter(isSecret).map(({ name }) => ({
    rule: 'readable-secret',
    level: 'error',
    object: nameOf(subject, 'select'),
    path: computed.some((field) => field.name === name) ? '$.computed_fields' : '$.columns',
    message: `anonymous callers may read "${name}" of ${tableName(table)}, which looks like a secret`,
    advice: `Remove "${name}" from the columns of the permission, or rename it if it is no secret.`,
  }))
}

/** Returns whether a column has the name of a secret, or a type with such a name, and a type that can hold one. */
function isSecret({ name, type }: Pick<Column, 'name' | 'type'>): boolean {
  const { kind } = type
  const isText = kind === 'text' || kind === 'json' || kind === 'jsonb' || kind === 'hstore'
  const isOpaque = isText || (kind === 'other' && (type.name === 'bytea' || type.name === 'uuid'))
  const isNumber = NUMBERS.has(kind)
  const words = wordsOf(name)
  if (isOpaque && SECRETS.test(words)) return true
  if ((isOpaque || isNumber) && NUMBERED.test(words)) return true
  return type.schema !== 'pg_catalog' && SECRETS.test(wordsOf(type.name))
}

const NUMBERS: ReadonlySet<SqlType['kind']> = new Set(['int2', 'int4', 'int8', 'numeric'])

/** `passwordHash` and `password_hash` are `password hash`. */
const wordsOf = (name: string): string =>
  name
    .replace(/([a-z\d])([A-Z])/g, '$1 $2')
    .replace(/[^A-Za-z\d]+/g, ' ')
    .trim()
    .toLowerCase()

/** The last words count: a `token count`, a `password changed at` and a `content hash` are no secrets. */
const ENDING = '( (hash|hashes|hashed|digest|encrypted|value|plain|plaintext))*$'
const SECRETS = new RegExp(
  `(^| )(passwords?|passwd|pwd|passphrase|passcode|secrets?|tokens?|api ?keys?|private ?key|secret ?key|access ?key|` +
    `encryption ?key|totp|credentials?|recovery codes?)${ENDING}|^(hash|salt)$|(^| )(password|pwd|pass) salt$`,
)
const NUMBERED = new RegExp(
  `(^| )(otp|pin|ssn|social security( number| no)?|iban|cvv|cvc|(credit |debit |bank )?card( number| no|number)|` +
    `credit ?card)${ENDING}`,
)
