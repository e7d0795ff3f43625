import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { rowsOf } from '../../kit/database.js'
import { makeImagePostgres } from '../files/image-postgres.js'
import { type Answer, ask, each } from '../notify/clients.js'
import { Servers } from '../notify/servers.js'
import type { Part } from '../part.js'
import { randomFrom } from '../random.js'
import { attachingBulk, filesConfig, uploadPending, USER, wrongFiles } from './attached.js'
import { type Fault, FAULTS, plant } from './plant.js'

const REQUESTS_PER_MINUTE = 1000
const REQUESTS_OF_A_FAULT = 80
const MOST_COPIES = 4
/** Requests in progress, each in several copies. */
const CROWD = { clients: 8, breakMs: 5 }
const LIFE_MS = [300, 2500] as const
/** How long PostgreSQL lives at least and at most, once a server is up. */
const DATABASE_LIFE_MS = [2000, 8000] as const
/** A copy that gets no answer for so long is a violation. */
const PATIENCE_MS = 180_000

export const keys: Part = {
  about: 'requests with an Idempotency-Key, while servers and PostgreSQL are killed',
  async run({ minutes, seed, progress }) {
    const { requests, copies, kills, databaseKills, replayed, told, attached, seconds, ...score } =
      await keysUnderKills({
        seed,
        requests: Math.ceil(minutes * REQUESTS_PER_MINUTE),
        progress,
      })
    const violations = [...score.violations]
    const withoutKeys = await keysUnderKills({ seed, requests: 40, withoutKeys: true })
    if (withoutKeys.violations.length === 0) violations.push('requests without keys were not caught')
    const faults = Object.keys(FAULTS) as Fault[]
    for (const fault of faults) {
      const found = await caughtBy(fault, seed)
      progress(`planted fault "${fault}": ${found ?? 'not caught'}`)
      if (found === undefined) violations.push(`the planted fault "${fault}" was not caught`)
    }
    return {
      done: `${requests} requests in ${copies} copies: ${kills} kills of servers, ${databaseKills} of PostgreSQL`,
      violations,
      figures: [
        `${replayed} answers replayed, ${told} times told to wait, ${attached} files attached, ${Math.round(seconds)} s`,
        `requests without keys were caught, and ${faults.length} planted faults tried`,
      ],
    }
  },
}

/** Returns a violation that a planted fault caused, if the loop saw one. */
export async function caughtBy(fault: Fault, seed: number): Promise<string | undefined> {
  const { violations } = await keysUnderKills({ seed, requests: REQUESTS_OF_A_FAULT, fault })
  return violations.find((each) => FAULTS[fault].shows.test(each))
}

export interface KeysScore {
  readonly requests: number
  readonly copies: number
  readonly kills: number
  readonly databaseKills: number
  /** Answers that were kept. */
  readonly replayed: number
  /** Answers with 409, because the first request was in progress. */
  readonly told: number
  /** Files that a bulk attached. */
  readonly attached: number
  readonly seconds: number
  readonly violations: readonly string[]
}

export interface KeysOptions {
  readonly seed: number
  readonly requests: number
  readonly mostKills?: number
  /** Faults that must be caught. */
  readonly withoutKeys?: boolean
  readonly fault?: Fault
  progress?(text: string): void
}

/** Sends each request up to 4 times at once, each copy until it is answered, and compares answers and effects. */
export async function keysUnderKills({
  seed,
  requests,
  mostKills = Infinity,
  withoutKeys = false,
  fault,
  progress = () => {},
}: KeysOptions): Promise<KeysScore> {
  const began = performance.now()
  const random = randomFrom(seed)
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-trust-'))
  await chmod(folder, 0o755)
  const { plugins, remove } = await plant(fault)
  await writeFile(
    join(folder, 'rowhouse.config.json'),
    JSON.stringify({ compile: { threads: 0 }, ...filesConfig(folder, plugins) }),
  )
  const postgres = await makeImagePostgres(join(folder, 'postgres'))
  await postgres.start()
  const options = { folder, databaseUrl: postgres.url, random, lifeMs: LIFE_MS, mostKills, holdEvery: 0, holdMs: 0 }
  const servers = new Servers({ ...options, startsAgain: true })
  const violations: string[] = []
  const score = { requests, copies: 0, databaseKills: 0, replayed: 0, told: 0 }
  /** The rows that the answer to a request names. */
  const answered = new Map<number, string>()
  const refused = new Set<number>()
  const over = new AbortController()

  /** Uploads the file of a request until it is pending. */
  async function upload(n: number): Promise<void> {
    for (const end = performance.now() + PATIENCE_MS; performance.now() < end;) {
      const status = await uploadPending(await servers.url(), n)
      if (status === 200) return
      if (status !== undefined && status !== 503) violations.push(`upload-${n}: ${status}`)
      await sleep(20 + random() * 80)
    }
    violations.push(`upload-${n}: no answer within ${PATIENCE_MS / 1000} s`)
  }

  /** Sends one copy until it has an answer. */
  async function repeat(n: number, key: string, body: unknown): Promise<string | undefined> {
    score.copies++
    for (const end = performance.now() + PATIENCE_MS; performance.now() < end;) {
      const answer = await ask(`${await servers.url()}/v1/query`, body, {
        ...USER,
        ...(withoutKeys ? {} : { 'Idempotency-Key': key }),
      })
      if (answer?.status === 200) {
        if (answer.headers.get('Idempotency-Replayed') === 'true') score.replayed++
        return JSON.stringify(answer.body)
      }
      if (isRefused(n) && answer?.body.code === 'unmet-expectation') {
        refused.add(n)
        return undefined
      }
      if (isInProgress(answer)) score.told++
      else if (answer && answer.status !== 503) {
        violations.push(`${key}: ${answer.status} ${JSON.stringify(answer.body)}`)
        return undefined
      }
      await sleep(20 + random() * 80)
    }
    violations.push(`${key}: no answer within ${PATIENCE_MS / 1000} s`)
    return undefined
  }

  async function killDatabase(): Promise<void> {
    const [least, most] = DATABASE_LIFE_MS
    for (;;) {
      // On a busy machine, a server may take longer to start than the database would live.
      await servers.url()
      const life = least + random() * (most - least)
      if (await sleep(life, false, { signal: over.signal }).catch(() => true)) return
      if (score.databaseKills >= mostKills) continue
      await postgres.kill()
      score.databaseKills++
      await postgres.start()
    }
  }

  try {
    await servers.first()
    await prepare(postgres.url, `${await servers.url()}/v1/query`)
    await servers.calm()
    servers.play()
    const killing = killDatabase()
    await each(requests, { ...CROWD, random }, async (n) => {
      const key = `request-${n}`
      if (hasFile(n)) await upload(n)
      const body = bodyOf(n)
      const copies = 1 + Math.floor(random() * MOST_COPIES)
      const answers = await Promise.all(Array.from({ length: copies }, () => repeat(n, key, body)))
      const different = new Set(answers.filter((answer) => answer !== undefined))
      if (different.size > 1) violations.push(`${key}: different answers: ${[...different].join(' and ')}`)
      const [answer] = different
      if (answer !== undefined) answered.set(n, idsIn(answer))
      if (n % 100 === 99) progress(`${n + 1} of ${requests}, ${servers.kills} and ${score.databaseKills} kills`)
    })
    over.abort()
    await killing
    await servers.calm()
    violations.push(...(await wrongEffects(postgres.url, answered)))
    const attached = new Set([...answered.keys()].filter(hasFile))
    const place = { folder, databaseUrl: postgres.url, url: await servers.url() }
    violations.push(...(await wrongFiles(place, attached, refused)))
    return {
      ...score,
      attached: attached.size,
      kills: servers.kills,
      seconds: (performance.now() - began) / 1000,
      violations,
    }
  } finally {
    over.abort()
    await servers.stop()
    await postgres.kill()
    await remove()
    await rm(folder, { recursive: true, force: true })
  }
}

const isInProgress = (answer: Answer | undefined): boolean =>
  answer?.status === 409 && answer.body.code === 'idempotency-in-progress'

async function prepare(databaseUrl: string, url: string): Promise<void> {
  await rowsOf(
    databaseUrl,
    `create table effect (id bigserial primary key, request int not null, file text);
     create function add_effect(n int) returns setof effect language sql volatile as
       'insert into effect (request) values (n) returning *'`,
  )
  for (const [type, name] of [
    ['track_table', 'effect'],
    ['track_function', 'add_effect'],
  ]) {
    const answer = await ask(url, { type, args: { schema: 'public', name } })
    if (answer?.status !== 200) throw new Error(`${type}: ${JSON.stringify(answer?.body)}`)
  }
}

const hasFile = (n: number): boolean => n % 4 === 3
/** Whether the last step of a bulk with a file fails. */
const isRefused = (n: number): boolean => n % 8 === 7

/** A request with two effects, one, or none. */
function bodyOf(n: number): unknown {
  if (hasFile(n)) return attachingBulk(n, isRefused(n))
  const insert = { type: 'insert', args: { table: 'effect', objects: [{ request: n }], returning: ['id'] } }
  if (n % 3 === 0) return insert
  const call = { type: 'call', args: { function: 'add_effect', arguments: { n }, columns: ['id'] } }
  return n % 3 === 1 ? { type: 'bulk', args: [insert, call] } : call
}
const effectsOf = (n: number): number => (n % 3 === 1 && !hasFile(n) ? 2 : 1)

/** Returns the ids of an answer in order. */
const idsIn = (answer: string): string => [...answer.matchAll(/"id":(\d+)/g)].map(([, id]) => id).join()

async function wrongEffects(databaseUrl: string, answered: ReadonlyMap<number, string>): Promise<string[]> {
  const rows = await rowsOf<{ request: number; ids: string }>(
    databaseUrl,
    "select request, string_agg(id::text, ',' order by id) as ids from effect group by 1",
  )
  const effects = new Map(rows.map(({ request, ids }) => [request, ids]))
  const wrong = [...answered].filter(([n, ids]) => effects.get(n) !== ids || ids.split(',').length !== effectsOf(n))
  return [
    ...wrong.map(([n, ids]) => `request-${n}: answered with ${ids}, and has the effects ${effects.get(n) ?? 'none'}`),
    ...[...effects.keys()].filter((n) => !answered.has(n)).map((n) => `request-${n}: has effects, and no answer`),
  ]
}
