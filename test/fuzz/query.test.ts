import { createHash } from 'node:crypto'
import { tmpdir } from 'node:os'
import pg from 'pg'
import t from 'tap'
import { startServer } from '../../core/host/server.js'
import { createLogger } from '../../core/observe/log.js'
import { databaseForServer } from '../kit/database.js'
import { MARKER } from '../kit/fuzz/hostile.js'
import { attack, type Attack } from '../kit/fuzz/requests.js'
import { REFILL_SQL, TOWN_METADATA, TOWN_SQL } from '../kit/fuzz/town.js'
import { METADATA, REFUSED, VALID } from '../kit/fuzz/valid.js'
import { createWire, type Reply } from '../kit/fuzz/wire.js'
import { patience } from '../kit/patience.js'
import fc, { cases } from '../kit/property.js'
import { ADMIN_SECRET } from '../kit/server.js'

const ASKED_FOR = process.env['ROWHOUSE_FUZZ_REQUESTS']
const REQUESTS = cases(2_500, 'ROWHOUSE_FUZZ_REQUESTS')
/** Unless a number is asked for, a slow machine sends fewer. */
const BUDGET_MS = ASKED_FOR === undefined ? 30_000 : Infinity
const SEED = Number(process.env['ROWHOUSE_FUZZ_SEED'] ?? 1)
const ROUND = Math.min(500, REQUESTS)
const CONNECTIONS = 8

t.test(`no request of ${REQUESTS} breaks the server or gets an answer of another form (seed ${SEED})`, async (t) => {
  const { url, database, logged, restore, watched } = await start(t)
  const faults: string[] = []
  process.on('unhandledRejection', onStray)
  process.on('uncaughtExceptionMonitor', onStray)
  t.teardown(() => {
    process.off('unhandledRejection', onStray)
    process.off('uncaughtExceptionMonitor', onStray)
  })
  function onStray(error: unknown) {
    faults.push(`stray: ${error instanceof Error ? error.stack : String(error)}`)
  }
  const wire = createWire(url, CONNECTIONS)
  t.teardown(wire.close)
  const prototypes = describePrototypes()
  const before = await watched()
  const seen = new Map<string, number>()

  const deadline = performance.now() + BUDGET_MS
  const isOver = (round: number) => round * ROUND >= REQUESTS || performance.now() > deadline || faults.length > 20
  for (let round = 0; !isOver(round); round++) {
    const attacks = fc.sample(attack, { seed: SEED * 1_000_003 + round, numRuns: ROUND })
    const pending = attacks.entries()
    const worker = async () => {
      for (const [i, each] of pending) {
        const reply = await wire.send(each)
        const kind = reply.kind === 'cut' ? `${each.kind} cut` : `${each.kind} ${reply.status}`
        seen.set(kind, (seen.get(kind) ?? 0) + 1)
        const wrong = judge(each, reply)
        if (wrong !== undefined)
          faults.push(
            `round ${round} request ${i}: ${wrong}\n${show(each)}\n${show(reply)}\n${logged().findLast((line) => line.includes('request failed')) ?? ''}`,
          )
      }
    }
    await Promise.all(Array.from({ length: CONNECTIONS }, worker))
    await restore()
    if (describePrototypes() !== prototypes) faults.push(`round ${round} polluted a prototype`)
    const good = await ask(url, {
      type: 'select',
      args: { table: 'landmark', columns: ['id', 'name'], where: { id: 2 } },
    })
    if (good !== '200 [{"id":2,"name":"tower"}]') faults.push(`after round ${round} a good request got ${good}`)
    await database.query(REFILL_SQL)
  }

  t.comment(
    [...seen]
      .sort()
      .map(([kind, count]) => `${kind}: ${count}`)
      .join(', '),
  )
  t.same(faults, [])
  t.equal(await watched(), before, 'what nobody may touch is as it was')
  t.equal(
    logged().find((line) => line.includes(MARKER)),
    undefined,
    'no value is in the log',
  )
})

t.test('the requests that mutations start from are right', async (t) => {
  const { url, restore, database } = await start(t)

  for (const query of [...VALID, ...METADATA]) {
    const answer = await ask(url, query as object, 'admin')
    await restore()
    await database.query(REFILL_SQL)

    t.match(answer, /^200 /, JSON.stringify(query))
  }
  for (const query of REFUSED) t.match(await ask(url, query as object, 'admin'), /^400 /, JSON.stringify(query))
})

const STATUSES = new Set([200, 400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 417, 429, 431, 501, 503, 504, 505])

/** What is wrong with an answer. */
function judge(sent: Attack, reply: Reply): string | undefined {
  if (reply.kind === 'cut') return sent.kind === 'raw' ? undefined : `cut: ${reply.why}`
  const { status, body } = reply
  if (status === 204 && sent.kind === 'http' && sent.method === 'OPTIONS') return undefined
  if (!STATUSES.has(status)) return `status ${status}`
  if (sent.kind === 'http' && sent.method === 'HEAD') return undefined
  if (status === 200) return reply.contentType.includes('json') && !isJson(body) ? 'a 200 that is not JSON' : undefined
  if (sent.kind === 'http' && sent.path.startsWith('/readyz')) return undefined
  const error = parsed(body)
  for (const key of ['path', 'error', 'code']) {
    if (typeof error?.[key] !== 'string' || error[key] === '') return `no "${key}" in the error`
  }
  if (!String(error?.['path']).startsWith('$')) return 'the path of the error does not begin with $'
  return undefined
}

const isJson = (text: string): boolean =>
  parsed(text) !== undefined || text.split('\n').every((line) => line === '' || parsed(line))

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return undefined
  }
}

function show(what: Attack | Reply): string {
  if (what.kind === 'raw') return JSON.stringify(what.bytes.toString('latin1').slice(0, 2000))
  if (what.kind === 'http') return `${what.role} ${what.method} ${what.path} ${what.body.toString().slice(0, 2000)}`
  return JSON.stringify(what).slice(0, 1000)
}

const describePrototypes = (): string =>
  [Object, Array, Map, Function, String].map(({ prototype }) => Reflect.ownKeys(prototype).map(String).join()).join(' ')

/** A server whose log is kept, on a database with the town in it. */
async function start(t: { teardown(fn: () => unknown): unknown }) {
  const { url: databaseUrl, drop } = await databaseForServer()
  t.teardown(drop)
  const database = new pg.Client({ connectionString: databaseUrl })
  await database.connect()
  t.teardown(() => database.end())
  await database.query(TOWN_SQL)
  const lines: string[] = []
  const server = await startServer({
    env: {},
    cwd: tmpdir(),
    log: createLogger({ level: 'trace', destination: { write: (line) => void lines.push(line) } }),
    overrides: {
      compile: { threads: 0 },
      limits: { newQueries: { perSecond: 0 } },
      database: { url: databaseUrl, poolWaitMs: patience(60_000), lockTimeoutMs: patience(60_000) },
      auth: { adminSecret: ADMIN_SECRET },
      http: {
        port: 0,
        maxJsonBytes: 1_048_576,
        maxAdminJsonBytes: 2_097_152,
        jsonTimeoutMs: 1000,
        failedAuthPerMinute: 1_000_000,
      },
    },
    builtins: { plugins: { query: new URL('../../plugins/query/index.js', import.meta.url) }, providers: {} },
  })
  t.teardown(() => server.close())
  const restore = async () => {
    const answer = await ask(server.url, { type: 'replace_metadata', args: TOWN_METADATA }, 'admin')
    if (answer !== '200 {"message":"success"}') throw new Error(`the metadata could not be restored: ${answer}`)
  }
  await restore()
  await database.query(REFILL_SQL)
  return {
    url: server.url,
    database,
    restore,
    logged: () => lines,
    /** A fingerprint of the rows that no request may touch. */
    async watched() {
      const { rows } = await database.query<{ all: string }>(
        `select concat((select json_agg(v order by id) from vault v), (select json_agg(l order by id) from landmark l)) as all`,
      )
      return createHash('sha256')
        .update(rows[0]?.all ?? '')
        .digest('hex')
    },
  }
}

async function ask(url: string, query: object, role = 'user'): Promise<string> {
  const response = await fetch(`${url}/v1/query`, {
    method: 'POST',
    body: JSON.stringify(query),
    headers: { 'x-service-admin-secret': ADMIN_SECRET, 'x-service-role': role, 'x-service-user-id': '1' },
  })
  return `${response.status} ${await response.text()}`
}
