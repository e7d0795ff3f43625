import t from 'tap'
import { OPERATORS } from '../../core/plan/operators.js'
import { reachable } from '../kit/noninterference/conditions.js'
import { cases } from '../kit/property.js'
import { type Difference, tryProperty } from '../kit/noninterference/property.js'

/**
 * What a role may not see cannot be told from what is not there. Two databases have the same schema and the same rows,
 * but for what a role may not see: hidden rows are others, or are missing; hidden columns of the other rows have other
 * values; a column, a constraint and a table that no permission names are called otherwise. The same request has to
 * have the same answer from both, byte for byte: status, headers but the time, and body, errors too.
 *
 * Some things tell of hidden rows by their nature, and no request here meets them:
 * - unique and foreign keys: a caller that writes a key of a hidden row is refused;
 * - a constraint or a filter of the author's that compares hidden columns of a row that the caller writes;
 * - what an author's function does with hidden rows by itself: tracked functions here raise by their arguments only, and
 *   nobody is granted a computed field that reads a hidden column of visible rows, or asks a function that searches one;
 * - numbers that a sequence gives, statistics, and time.
 *
 * `ROWHOUSE_NONINTERFERENCE_CASES` is how many requests are tried, `ROWHOUSE_NONINTERFERENCE_SEED` chooses others, and
 * with `ROWHOUSE_NONINTERFERENCE_ALL=1` one difference of each kind is told, not only the first.
 */
const CASES = cases(1_500, 'ROWHOUSE_NONINTERFERENCE_CASES')
/** Enough requests to use every operator. */
const MANY = 6_000
const SEED = Number(process.env['ROWHOUSE_NONINTERFERENCE_SEED'] ?? 20240607)
const ALL = process.env['ROWHOUSE_NONINTERFERENCE_ALL'] === '1'

t.test(`what a role may not see cannot be told from what is not there (seed ${SEED})`, async (t) => {
  const { differences, answers, used } = await tryProperty(t, {
    cases: CASES,
    seed: SEED,
    all: ALL,
    progress: (text) => t.comment(text),
  })

  t.comment(JSON.stringify(answers))
  for (const each of differences) {
    t.comment(told(each))
    t.fail(each.kind)
  }
  if (differences.length > 0) return
  const sum = Object.values(answers).reduce((sum, { good, all }) => ({ good: sum.good + good, all: sum.all + all }))
  t.ok(sum.good > sum.all / 3, 'many requests are answered')
  if (CASES >= MANY) {
    t.same(
      [...reachable()].filter((name) => !used.has(name)),
      [],
      'every operator was used',
    )
  }
  t.same(
    [...OPERATORS.keys()].filter((name) => !name.startsWith('st_') && !reachable().has(name)),
    [],
    'and every operator but those of PostGIS has a column',
  )
})

function told({ kind, number, count, test, answers, era }: Difference): string {
  const { role, user, org, method, path, headers, body } = test
  return [
    `case ${number} and ${count - 1} more: ${kind}`,
    `${method} ${path} ${JSON.stringify(headers)} role ${role}, user ${user}, org ${org}`,
    JSON.stringify(body),
    ...answers.map((answer) => JSON.stringify(answer).slice(0, SHOWN)),
    `permissions: ${JSON.stringify(era.roles[role])}`,
    `hidden columns: ${JSON.stringify(era.hidden)}; all rows shown: ${era.open.join()}`,
  ].join('\n')
}
const SHOWN = 2000
