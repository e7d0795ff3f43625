import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, open, readFile, rm } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { SignJWT } from 'jose'
import { startAttack } from '../../../bench/load/attack.js'
import { startThrowaway } from '../../kit/cluster.js'
import { ADMIN_SECRET } from '../../kit/server.js'
import { until } from '../../kit/until.js'
import type { Part, PartOptions, Score } from '../part.js'
import { crowd, CROWD, CROWD_MS } from './crowd.js'
import { DOCUMENTS } from './documents.js'
import type { Honest, Setting } from './honest.js'
import { judge, type Reply } from './judge.js'
import { type Kind, NONCE, type Who, WHO } from './kind.js'
import { QUERIES } from './queries.js'
import type { Order, Reading } from './server.js'

/** Hostile documents at a server of its own process, while honest clients go on asking. */
export const hostile: Part = {
  about: 'documents and requests that try to cost more than they should, while honest clients go on',
  run,
}

const KEY = 'a key of the hostile documents, 32 characters'
const KINDS = [...DOCUMENTS, ...QUERIES]
const ROUNDS = 2
const AT_ONCE = 4
const DEADLINE_MS = 60_000
const QUIET_MS = 10_000
/** What an admin sends at most, in bytes: whoever may run any SQL need not attack. */
const MOST_OF_ADMIN = 64 * 1024
const STRANGERS: readonly Who[] = ['customer', 'anonymous']
/** The heap of the server, small for one that serves strangers. */
const HEAP_MB = 512
/** Users that the attack comes from: each has its own budget of new forms. */
const USERS = 200
/** How much more memory a round may keep than the one before: caches fill, and pages are not given back at once. */
const GROWTH = 1.25

async function run({ minutes, only, profile, progress }: PartOptions): Promise<Score> {
  const kinds = KINDS.filter(({ name }) => only.test(name))
  const crowded = only.test(CROWD)
  if (kinds.length === 0 && !crowded) throw new Error(`no kind has a name like ${only.source}`)
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-trust-'))
  const cluster = await startThrowaway()
  const server = await startServerChild(cluster.url, join(folder, 'log'), profile)
  const honest = await startHonest(server.url)
  try {
    const scores: Score[] = []
    if (kinds.length > 0) {
      scores.push(await measure(server, honest, kinds, (minutes * 60_000) / (ROUNDS * kinds.length), progress))
    }
    if (crowded && server.running()) scores.push(await measureCrowd(server, honest, progress))
    return {
      done: scores.map(({ done }) => done).join('; '),
      violations: scores.flatMap(({ violations }) => violations),
      figures: scores.flatMap(({ figures }) => figures),
    }
  } finally {
    honest.stop()
    await server.stop()
    await cluster.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

async function measure(
  server: ServerChild,
  honest: HonestClients,
  kinds: readonly Kind[],
  eachMs: number,
  progress: (text: string) => void,
): Promise<Score> {
  const violations: string[] = []
  const sender = createSender(server.url, await Promise.all(Array.from({ length: USERS }, (_, i) => tokenOf(1 + i))))
  const calm = { known: [] as number[], novel: [] as number[] }
  const storm = { known: [] as number[], novel: [] as number[] }
  const told = async (into: typeof calm, when: string) => {
    const { known, novel, failures } = await honest.read()
    into.known.push(...known)
    into.novel.push(...novel)
    violations.push(...failures.map((failure) => `honest, ${when}: ${failure}`))
    return known
  }

  await sleep(2000)
  await honest.read()
  await server.ask('start')
  await sleep(QUIET_MS)
  await told(calm, 'without an attack')
  const before = await server.ask('rest')
  progress(`without an attack: event loop ${delay(before.all)}; honest ${spread(calm.known)}`)

  await server.ask('start')
  let sent = 0
  let worst = { name: '', p99: 0 }
  let dearest = { name: '', cost: 0 }
  let [ran, waited] = [0, 0]
  const rests: Reading[] = []
  for (let round = 1; round <= ROUNDS; round++) {
    for (const kind of kinds) {
      await server.ask('read')
      const words = new Map<string, number>()
      const end = performance.now() + eachMs
      const body = split(kind.body())
      const worker = async () => {
        do {
          const { word, wrong } = judge(kind, await sender.send(kind, body, sent++))
          words.set(word, (words.get(word) ?? 0) + 1)
          if (wrong !== undefined) violations.push(`${kind.name}: ${wrong}`)
        } while (performance.now() < end && server.running())
      }
      await Promise.all(Array.from({ length: AT_ONCE }, worker))
      if (!server.running()) {
        violations.push(`the server has ended during "${kind.name}"`)
        break
      }
      const { since, rss, main } = await server.ask('read')
      const count = [...words.values()].reduce((sum, n) => sum + n, 0)
      const cost = (main?.ran ?? NaN) / count
      ran += main?.ran ?? NaN
      waited += main?.waited ?? NaN
      if (cost > dearest.cost) dearest = { name: kind.name, cost }
      const known = await told(storm, kind.name)
      if (since.p99 > worst.p99) worst = { name: kind.name, p99: since.p99 }
      const said = [...words].map(([word, count]) => `${word} ${count}`).join(', ')
      progress(
        `${kind.name}: ${said}; ${cost.toFixed(1)} ms of the main thread each; event loop ${delay(since)}; honest ${spread(known)}; ${Math.round(rss)} MiB`,
      )
      await sender.compiles().catch(() => violations.push(`after "${kind.name}" nothing new is compiled`))
    }
    if (!server.running()) break
    rests.push(await settled(server))
    progress(`round ${round}: ${Math.round(rests.at(-1)!.rss)} MiB at rest`)
  }
  sender.close()
  const [first, last] = [rests[0], rests.at(-1)]
  if (first && last && last.rss > GROWTH * first.rss)
    violations.push(`memory grows: ${Math.round(first.rss)} MiB at rest, then ${Math.round(last.rss)}`)
  violations.push(...(await server.complaints()))

  return {
    done: `${sent} requests of ${kinds.length} kinds in ${ROUNDS} rounds, ${AT_ONCE} at once, as admin, ${USERS} users and anonymous; ${storm.known.length + storm.novel.length} honest requests`,
    violations,
    figures: [
      `event loop ${last ? delay(last.all) : 'not read'}, worst kind p99 ${worst.p99.toFixed(1)} ms (${worst.name})`,
      `main thread: at most ${dearest.cost.toFixed(0)} ms for a request, honest ones beside it included (${dearest.name}); ran ${seconds(ran)}, waited ${seconds(waited)} for a processor`,
      `honest, known forms: ${spread(calm.known)} without, ${spread(storm.known)} with the attack`,
      `honest, new forms: ${spread(calm.novel)} without, ${spread(storm.novel)} with`,
      `memory at rest ${[before, ...rests].map(({ rss }) => Math.round(rss)).join(', then ')} MiB, at most ${Math.round(last?.peakRss ?? NaN)}`,
    ],
  }
}

/** Many attackers at the same time: whatever becomes of them, honest clients are answered. */
async function measureCrowd(
  server: ServerChild,
  honest: HonestClients,
  progress: (text: string) => void,
): Promise<Score> {
  const violations: string[] = []
  const told = async (when: string) => {
    const { known, novel, failures } = await honest.read()
    violations.push(...failures.map((failure) => `honest, ${when}: ${failure}`))
    return [...known, ...novel]
  }
  await sleep(2000)
  await honest.read()
  await sleep(CROWD_MS)
  const calm = await told('without an attack')
  const attackers = crowd(await Promise.all(Array.from({ length: 6 }, (_, i) => tokenOf(301 + i))))
  const attack = startAttack(Number(new URL(server.url).port), attackers)
  await sleep(CROWD_MS)
  await attack.stop()
  const storm = await told(CROWD)
  // Those that were due are answered by then, or have failed.
  await sleep(2000)
  storm.push(...(await told(CROWD)))
  if (!server.running()) violations.push(`the server has ended during "${CROWD}"`)
  const said = [...attack.answers].map(([status, count]) => `${status || 'cut'} ${count}`).join(', ')
  const figure = `honest: ${spread(calm)} without, ${spread(storm)} with ${CROWD}, who got ${said}`
  progress(figure)
  return { done: CROWD, violations, figures: [figure] }
}

/** Memory when it has been left alone for a while. */
async function settled(server: ServerChild): Promise<Reading> {
  for (let i = 0; i < 5; i++) {
    await server.ask('rest')
    await sleep(1000)
  }
  return server.ask('rest')
}

interface ServerChild {
  readonly url: string
  running(): boolean
  ask(order: Order): Promise<Reading>
  /** What its log says that it should not. */
  complaints(): Promise<readonly string[]>
  stop(): Promise<void>
}

async function startServerChild(databaseUrl: string, log: string, profile: string | undefined): Promise<ServerChild> {
  const file = await open(log, 'w')
  const child = fork(fileURLToPath(new URL('server.js', import.meta.url)), {
    execArgv: [
      '--expose-gc',
      `--max-old-space-size=${HEAP_MB}`,
      ...(profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`]),
    ],
    stdio: ['ignore', file.fd, file.fd, 'ipc'],
    env: {
      PATH: process.env['PATH'],
      NODE_ENV: 'production',
      DATABASE_URL: databaseUrl,
      ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET,
      ROWHOUSE_AUTH__JWT__ALGORITHMS: 'HS256',
      ROWHOUSE_AUTH__JWT__KEY: KEY,
    },
  })
  const [{ url }] = (await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(async () => Promise.reject(new Error(await readFile(log, 'utf8')))),
  ])) as [{ url: string }]
  const running = () => child.exitCode === null && child.signalCode === null
  return {
    url,
    running,
    ask: (order) => asked<Reading>(child, order),
    async complaints() {
      const lines = (await readFile(log, 'utf8')).split('\n')
      const wrong = lines.filter((line) => line !== '' && !line.startsWith('{') && !/ExperimentalWarning/.test(line))
      return wrong.map((line) => `in the log of the server: ${line}`)
    },
    async stop() {
      await file.close()
      if (!running()) return
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      await Promise.race([ended, sleep(40_000).then(() => child.kill('SIGKILL'))])
    },
  }
}

interface HonestClients {
  read(): Promise<Honest>
  stop(): void
}

async function startHonest(url: string): Promise<HonestClients> {
  const child = fork(fileURLToPath(new URL('honest.js', import.meta.url)))
  child.send({ url, authorization: await tokenOf(1999) } satisfies Setting)
  return { read: () => asked<Honest>(child, 'read'), stop: () => void child.kill() }
}

async function asked<T>(child: ChildProcess, order: string): Promise<T> {
  const signal = AbortSignal.timeout(DEADLINE_MS)
  const answer = once(child, 'message', { signal })
  child.send(order)
  return ((await answer) as [T])[0]
}

/** A body where its number goes. */
type Split = readonly Buffer[]

function split(body: Buffer): Split {
  const parts: Buffer[] = []
  let from = 0
  for (let at = body.indexOf(NONCE); at >= 0; at = body.indexOf(NONCE, from)) {
    parts.push(body.subarray(from, at))
    from = at + NONCE.length
  }
  return [...parts, body.subarray(from)]
}

function createSender(url: string, tokens: readonly string[]) {
  const agent = new Agent({ keepAlive: true, maxSockets: 2 * AT_ONCE })
  const { hostname, port } = new URL(url)

  function headersOf(who: Who, n: number): Record<string, string> {
    if (who === 'admin') return { 'x-service-admin-secret': ADMIN_SECRET }
    return who === 'customer' ? { authorization: tokens[n % tokens.length] as string } : {}
  }
  function post(path: string, headers: Record<string, string>, parts: Split, nonce: string): Promise<Reply> {
    return new Promise((resolve) => {
      const failed = (error: Error) => resolve({ text: error.message })
      const length = parts.reduce((sum, part) => sum + part.length, 0) + nonce.length * (parts.length - 1)
      const sent = request(
        { hostname, port, path, method: 'POST', agent, headers: { ...headers, 'content-length': length } },
        (response) => {
          const { statusCode: status = 0 } = response
          const retryAfter = response.headers['retry-after']
          text(response).then((said) => resolve({ status, text: said, retryAfter }), failed)
        },
      )
      sent.setTimeout(DEADLINE_MS, () => sent.destroy(new Error(`nothing in ${DEADLINE_MS} ms`)))
      sent.on('error', failed)
      for (const [i, part] of parts.entries()) {
        if (i > 0) sent.write(nonce)
        sent.write(part)
      }
      sent.end()
    })
  }
  let probes = 0
  return {
    send: ({ path, as, headers = {} }: Kind, parts: Split, n: number) => {
      const who = as ?? (parts.reduce((sum, part) => sum + part.length, 0) > MOST_OF_ADMIN ? STRANGERS : WHO)
      const own = Object.entries(headers).map(([name, value]) => [name, value.replaceAll(NONCE, String(n))])
      const caller = headersOf(who[n % who.length] as Who, Math.floor(n / who.length))
      return post(path, { ...caller, ...Object.fromEntries(own) }, parts, String(n))
    },
    /** Waits until a document that nobody has sent is compiled. */
    compiles: () =>
      until('a new document is compiled', async () => {
        const body = [Buffer.from(`{"query":"{ product_by_pk(id: 1) { probe${probes++}: id } }"}`)]
        const { text: said } = await post('/v1/graphql', headersOf('admin', 0), body, '')
        return /^\{"data":\{"product_by_pk":\{"probe\d+":1\}\}\}$/.test(said)
      }),
    close: () => agent.destroy(),
  }
}

const tokenOf = async (id: number): Promise<string> => {
  const rowhouse = { 'x-service-allowed-roles': ['customer'], 'x-service-user-id': String(id) }
  const token = new SignJWT({ rowhouse: { ...rowhouse, 'x-service-default-role': 'customer' } })
  return `Bearer ${await token.setProtectedHeader({ alg: 'HS256' }).setExpirationTime('1d').sign(Buffer.from(KEY))}`
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(0)} s`

const delay = ({ p50, p99, max }: Reading['all']): string =>
  `p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)}, max ${Math.round(max)} ms`

function spread(values: readonly number[]): string {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (share: number) =>
    (sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN).toFixed(1)
  return `p50 ${at(0.5)}, p99 ${at(0.99)}, max ${at(1)} ms`
}
