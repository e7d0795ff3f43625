import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { freshDatabase } from '../../kit/database.js'
import { randomFrom } from '../random.js'
import { HARNESS, keepVersions, readRows, readVersions } from './audit.js'
import { type Fake, PROVIDER, startFake } from './fake.js'
import type { Evidence } from './judge.js'
import { type Fault, plant } from './plant.js'
import { Servers } from './servers.js'

export interface StageOptions {
  readonly seed: number
  readonly fault?: Fault
  /** Whether the providers send a message once that they are given twice. */
  readonly idempotent: boolean
  /** One life of a server in so many is held still for longer than a lease. 0: none. */
  readonly holdEvery: number
  /** How long a server lives at least and at most. */
  readonly lifeMs: readonly [least: number, most: number]
  /** After so many kills servers live on. */
  readonly mostKills?: number
  /** Of each server. */
  readonly concurrency: number
  readonly retrySeconds?: number
}

const LEASE_SECONDS = 2
/** Shorter than half of a lease. */
const TIMEOUT_MS = 800
/** For so long a server is held still beyond a lease. */
const BEYOND_MS = 500
/** Nobody waits for what is left longer than this. */
const DRAIN_MS = 180_000

/** A database, two providers of one process, and servers that are killed. */
export class Stage {
  readonly database: pg.Client
  readonly servers: Servers
  readonly random: () => number
  private readonly fake: Fake
  private readonly settings: Pick<Evidence, 'idempotent' | 'timeoutMs' | 'leaseMs'>

  constructor(parts: {
    readonly database: pg.Client
    readonly servers: Servers
    readonly random: () => number
    readonly fake: Fake
    readonly settings: Pick<Evidence, 'idempotent' | 'timeoutMs' | 'leaseMs'>
  }) {
    this.database = parts.database
    this.servers = parts.servers
    this.random = parts.random
    this.fake = parts.fake
    this.settings = parts.settings
  }

  /** Stops killing, and waits until nothing waits any more; what is left then is for the judge. */
  async drain(): Promise<void> {
    const { servers, database } = this
    await servers.calm()
    // Those whose callers died have a minute, which is not waited for: nobody has them any more.
    await database.query(
      "update svc_catalog.svc_outbox set next_at = now() where state = 'sending' and mode = 'sync' and next_at > now()",
    )
    // What was tried often is tried again late.
    for (
      const end = performance.now() + DRAIN_MS;
      performance.now() < end && (await this.waiting());
      await sleep(50)
    ) {}
  }

  private async waiting(): Promise<boolean> {
    const { rowCount } = await this.database.query(
      "select from svc_catalog.svc_outbox where state in ('queued', 'sending') limit 1",
    )
    return rowCount === 1
  }

  async evidence(): Promise<Evidence> {
    return {
      rows: await readRows(this.database),
      versions: await readVersions(this.database),
      asked: await this.fake.asked(),
      lives: this.servers.lives,
      ...this.settings,
    }
  }
}

export async function onStage<T>(options: StageOptions, fn: (stage: Stage) => Promise<T>): Promise<T> {
  const { seed, idempotent, holdEvery, lifeMs, mostKills = Infinity, concurrency, retrySeconds = 0.1 } = options
  const random = randomFrom(seed)
  const planted = await plant(options.fault)
  const { leaseSeconds = LEASE_SECONDS, timeoutMs = TIMEOUT_MS } = planted
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-trust-'))
  const fake = await startFake(seed)
  const { url, drop } = await freshDatabase()
  const provider = (account: string) => ({ use: PROVIDER, url: fake.url, account, once: idempotent, timeoutMs })
  const config = {
    compile: { threads: 0 },
    providers: { email: { default: 'first', first: provider('first'), second: provider('second') } },
    plugins: {
      notify: {
        ...planted.notify,
        email: { failover: ['second'] },
        queue: { concurrency, pollMs: 50, retrySeconds, leaseSeconds },
        // Kills and faults are many; each message is asked for all the same.
        breaker: { failures: 1000 },
      },
    },
  }
  await writeFile(join(folder, 'rowhouse.config.json'), JSON.stringify(config))
  const database = new pg.Client({ connectionString: url, application_name: HARNESS })
  await database.connect()
  const leaseMs = leaseSeconds * 1000
  const holdMs = leaseMs + BEYOND_MS
  const servers = new Servers({ folder, databaseUrl: url, random, lifeMs, mostKills, holdEvery, holdMs })
  try {
    await servers.first()
    await keepVersions(database)
    return await fn(new Stage({ database, servers, random, fake, settings: { idempotent, timeoutMs, leaseMs } }))
  } finally {
    await servers.stop()
    await fake.stop()
    await database.end()
    await drop()
    await planted.remove()
    await rm(folder, { recursive: true, force: true })
  }
}
