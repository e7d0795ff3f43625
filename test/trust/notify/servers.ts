import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { ADMIN_SECRET } from '../../kit/server.js'
import { until } from '../../kit/until.js'

const PROGRAM = fileURLToPath(new URL('./server.js', import.meta.url))
/** How many there are. */
const SLOTS = 2

/** One process from its start to its end. Times in milliseconds since 1970. */
export interface Life {
  /** What the provider and the database know it by. */
  readonly name: string
  /** When it was killed; absent: it was not. */
  killed?: number
  /** From when to when it was held still. */
  readonly held: [from: number, to: number][]
}

interface Running {
  readonly life: Life
  readonly url: string
  readonly process: ChildProcess
}

export interface ServersOptions {
  /** Of the configuration. */
  readonly folder: string
  readonly databaseUrl: string
  readonly random: () => number
  /** How long one lives at least and at most. */
  readonly lifeMs: readonly [least: number, most: number]
  /** After so many they live on. */
  readonly mostKills: number
  /** One life in so many is held still for longer than a lease. 0: none. */
  readonly holdEvery: number
  readonly holdMs: number
  /** Whether one that does not start is started again, because its database is killed, too. */
  readonly startsAgain?: true
  /** What a server is, if not one that sends messages. */
  readonly program?: string
}

/** Some servers on one database that are killed, and started again. */
export class Servers {
  readonly lives: Life[] = []
  private readonly options: ServersOptions
  private readonly up = new Set<Running>()
  private readonly all = new Set<Running>()
  private playing: Promise<unknown> = Promise.resolve()
  private calmed = false
  private stopped = false

  constructor(options: ServersOptions) {
    this.options = options
  }

  get kills(): number {
    return this.lives.filter(({ killed }) => killed !== undefined).length
  }

  get holds(): number {
    return this.lives.reduce((sum, { held }) => sum + held.length, 0)
  }

  /** One server, before any is killed: the tables come into being. */
  async first(): Promise<void> {
    await this.start()
  }

  /** Kills what runs, again and again, until `calm`. */
  play(): void {
    this.calmed = false
    const first = [...this.up]
    this.playing = Promise.all(Array.from({ length: SLOTS }, (_, i) => this.slot(first[i])))
  }

  /** The last lives end by a kill as well; then there are new servers that stay. */
  async calm(): Promise<void> {
    this.calmed = true
    await this.playing
    for (const running of this.all) await this.kill(running)
    await Promise.all(Array.from({ length: SLOTS }, () => this.start()))
  }

  /** Where somebody answers. */
  async url(): Promise<string> {
    await until('a server is up', () => this.up.size > 0)
    const all = [...this.up]
    return (all[Math.floor(this.options.random() * all.length)] as Running).url
  }

  async stop(): Promise<void> {
    this.calmed = true
    this.stopped = true
    await this.playing.catch(() => {})
    for (const running of this.all) await this.kill(running)
  }

  /** @param first that runs already */
  private async slot(first: Running | undefined): Promise<void> {
    const { random, holdEvery, holdMs, lifeMs, mostKills } = this.options
    const [least, most] = lifeMs
    for (let running = first ?? (await this.start()); ; running = await this.start()) {
      await sleep(least + random() * (most - least))
      while (this.kills >= mostKills && !this.calmed) await sleep(least)
      if (!this.calmed && holdEvery > 0 && this.lives.length % holdEvery === holdEvery - 1) {
        await this.hold(running, holdMs)
        await sleep(least)
      }
      await this.kill(running)
      if (this.calmed) return
    }
  }

  private async hold(running: Running, ms: number): Promise<void> {
    this.up.delete(running)
    const from = Date.now()
    running.process.kill('SIGSTOP')
    await sleep(ms)
    running.process.kill('SIGCONT')
    running.life.held.push([from, Date.now()])
  }

  private async kill(running: Running): Promise<void> {
    this.up.delete(running)
    this.all.delete(running)
    const gone = once(running.process, 'exit')
    running.process.kill('SIGKILL')
    running.life.killed = Date.now()
    if (running.process.exitCode === null && running.process.signalCode === null) await gone
  }

  private async start(): Promise<Running> {
    for (;;) {
      const started = await this.startOne().catch((error: unknown) => {
        if (!this.options.startsAgain || this.stopped) throw error
      })
      if (started) return started
    }
  }

  private async startOne(): Promise<Running> {
    const life: Life = { name: `server ${this.lives.length}`, held: [] }
    this.lives.push(life)
    const url = new URL(this.options.databaseUrl)
    url.searchParams.set('application_name', life.name)
    const child = spawn(process.execPath, [this.options.program ?? PROGRAM], {
      cwd: this.options.folder,
      env: {
        PATH: process.env['PATH'] ?? '',
        DATABASE_URL: url.href,
        ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET,
        SERVER_NAME: life.name,
      },
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    let said = ''
    child.stderr.on('data', (chunk: Buffer) => (said = `${said}${chunk.toString()}`.slice(-2000)))
    const lines = createInterface({ input: child.stdout })
    const [first] = (await Promise.race([
      once(lines, 'line'),
      once(child, 'exit').then(() => {
        throw new Error(`a server did not start: ${said}`)
      }),
    ])) as [string]
    const running = { life, url: first, process: child }
    this.up.add(running)
    this.all.add(running)
    return running
  }
}
