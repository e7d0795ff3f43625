import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { rowsOf } from '../../kit/database.js'
import { metadataRequests, queriesOf, ROLES, SQL, write } from '../../kit/live-world.js'
import { makeImagePostgres } from '../files/image-postgres.js'
import { ask } from '../notify/clients.js'
import { Servers } from '../notify/servers.js'
import type { Part } from '../part.js'
import { randomFrom } from '../random.js'
import { Follower } from './follower.js'

const PROGRAM = fileURLToPath(new URL('./server.js', import.meta.url))
const MOMENTS_PER_MINUTE = 3
const MOMENTS_OF_A_FAULT = 12
const LIFE_MS = [1000, 5000] as const
const DATABASE_LIFE_MS = [3000, 8000] as const
const WRITERS = 4
const WRITING_MS = 6000
/** How long a client may take to know what is true, when nothing fails any more. */
const QUIET_MS = 20_000

/** Faults that must be caught. */
const FAULTS = {
  /** Notes do not survive a crash; readers have to learn of it. */
  epoch: 'alter table svc_catalog.svc_live_epoch set logged',
  trigger: 'alter table item disable trigger user',
} as const
type Fault = keyof typeof FAULTS

export const live: Part = {
  about: 'live queries, while servers and PostgreSQL are killed',
  async run({ minutes, seed, progress }) {
    const score = await liveUnderKills({ seed, moments: Math.ceil(minutes * MOMENTS_PER_MINUTE), progress })
    const violations = [...score.violations]
    for (const fault of Object.keys(FAULTS) as Fault[]) {
      const { violations: found } = await liveUnderKills({ seed, moments: MOMENTS_OF_A_FAULT, fault })
      progress(`planted fault "${fault}": ${found.length > 0 ? 'caught' : 'not caught'}`)
      if (found.length === 0) violations.push(`the planted fault "${fault}" was not caught`)
    }
    const { moments, compared, kills, databaseKills, events, streams, seconds } = score
    return {
      done: `${compared} answers compared at ${moments} moments: ${kills} kills of servers, ${databaseKills} of PostgreSQL`,
      violations,
      figures: [
        `${events} events, ${streams} streams, ${Math.round(seconds)} s`,
        `${Object.keys(FAULTS).length} planted faults tried`,
      ],
    }
  },
}

interface Options {
  readonly seed: number
  readonly moments: number
  readonly fault?: Fault
  progress?(text: string): void
}

/**
 * Clients that connect again follow random queries while writers write and all around them is killed. When it is quiet, each has to
 * know what a fresh request answers.
 */
async function liveUnderKills({ seed, moments, fault, progress = () => {} }: Options) {
  const began = performance.now()
  const random = randomFrom(seed)
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-trust-'))
  await chmod(folder, 0o755)
  await writeFile(
    join(folder, 'rowhouse.config.json'),
    JSON.stringify({ compile: { threads: 0 }, plugins: { live: { maxQueriesPerCaller: 10_000 } } }),
  )
  const postgres = await makeImagePostgres(join(folder, 'postgres'))
  await postgres.start()
  const servers = new Servers({
    folder,
    databaseUrl: postgres.url,
    random,
    program: PROGRAM,
    lifeMs: LIFE_MS,
    mostKills: Infinity,
    holdEvery: 0,
    holdMs: 0,
    startsAgain: true,
  })
  let databaseKills = 0
  const killDatabase = async (): Promise<void> => {
    await postgres.kill()
    databaseKills++
    await postgres.start()
  }

  async function writeFor(ms: number): Promise<void> {
    const until = performance.now() + ms
    while (performance.now() < until) {
      const client = new pg.Client(postgres.url)
      client.on('error', () => {})
      try {
        await client.connect()
        while (performance.now() < until) await write(client, random)
      } catch {
        await sleep(50)
      } finally {
        await client.end().catch(() => {})
      }
    }
  }

  const score = { moments: 0, compared: 0, events: 0, streams: 0, violations: [] as string[] }
  try {
    await servers.first()
    await rowsOf(postgres.url, SQL)
    const made = await ask(`${await servers.url()}/v1/query`, { type: 'bulk', args: metadataRequests() })
    if (made?.status !== 200) throw new Error(JSON.stringify(made?.body))
    if (fault) await rowsOf(postgres.url, FAULTS[fault])
    for (; score.moments < moments && score.violations.length === 0; score.moments++) {
      const queries = queriesOf(random)
      // A server that lives on is the one that may not notice what it missed.
      const isKilled = !fault && random() < 0.5
      if (isKilled) servers.play()
      const followers = ROLES.map((as) => new Follower(queries, as, () => servers.url()))
      const [least, most] = DATABASE_LIFE_MS
      const writing = Promise.all(Array.from({ length: WRITERS }, () => writeFor(WRITING_MS)))
      if (random() < 0.5) {
        await sleep(least + random() * (most - least))
        await killDatabase()
      }
      await writing
      if (isKilled) await servers.calm()
      // What was committed a moment ago is not read yet.
      if (fault === 'epoch' || random() < 0.5) await killDatabase()
      const wrong = await unknown(followers, () => servers.url())
      score.compared += ROLES.length * Object.keys(queries).length
      score.violations.push(...wrong)
      for (const each of followers) {
        score.events += each.events
        score.streams += each.streams
        each.stop()
      }
      progress(`${score.moments + 1} of ${moments} moments, ${servers.kills} and ${databaseKills} kills`)
    }
    return { ...score, kills: servers.kills, databaseKills, seconds: (performance.now() - began) / 1000 }
  } finally {
    await servers.stop()
    await postgres.kill()
    await rm(folder, { recursive: true, force: true })
  }
}

/** Returns what clients do not know although it is quiet. */
async function unknown(followers: readonly Follower[], url: () => Promise<string>): Promise<readonly string[]> {
  const until = performance.now() + QUIET_MS
  for (;;) {
    await sleep(500)
    const wrong: string[] = []
    for (const follower of followers) {
      for (const [name, query] of Object.entries(follower.queries)) {
        const answer = await ask(`${await url()}/v1/query`, query, follower.headers)
        if (answer?.status !== 200 || JSON.stringify(answer.body) !== JSON.stringify(follower.last(name))) {
          wrong.push(`${name} of ${JSON.stringify(follower.headers)} is not known: ${JSON.stringify(query)}`)
        }
      }
    }
    if (wrong.length === 0 || performance.now() > until) return wrong
  }
}
