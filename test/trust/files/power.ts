import { mkdtemp, rm, chmod } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { PartOptions, Score } from '../part.js'
import { randomFrom } from '../random.js'
import { type DiskImage, makeDiskImage } from './disk-image.js'
import { type ImagePostgres, makeImagePostgres } from './image-postgres.js'
import { checkDisk, Model } from './model.js'
import type { Fault } from './plant.js'
import { startVictim, type Victim, writeConfig } from './victim.js'

const CUTS = 40
/** The faults that a power cut has to show, and within how many cuts. */
const PLANTED: readonly Fault[] = ['unsynced', 'forgetful', 'late']
const PLANTED_CUTS = 20
const CLIENTS = [
  ['a', 'b'],
  ['c', 'd'],
]

/** Files and PostgreSQL on one disk, whose power is cut while files come and go. */
export async function powerCuts({ seed, progress }: PartOptions): Promise<Score> {
  const violations = await plantedCuts(PLANTED, seed, progress)
  const score = await someCuts(CUTS, seed)
  progress(`power: ${score.cuts} cuts, ${score.acknowledged} acknowledged changes`)
  return {
    done: `${score.cuts} power cuts, ${score.acknowledged} acknowledged changes`,
    violations: [...violations, ...score.violations],
    figures: [
      `${PLANTED.length} planted faults caught by power cuts`,
      'a folder that is not made durable after an upload is not to be seen on ext4, whose fsync of a new file takes its name along',
    ],
  }
}

/** Some of it. */
export const someCuts = (cuts: number, seed: number): Promise<PowerScore> =>
  withPower(undefined, seed, (power) => power.cuts(cuts, false))

/** @returns which planted faults were not caught */
export async function plantedCuts(
  faults: readonly Fault[],
  seed: number,
  progress: (text: string) => void,
): Promise<string[]> {
  const missed: string[] = []
  for (const fault of faults) {
    const { cuts, violations } = await withPower(fault, seed, (power) => power.cuts(PLANTED_CUTS, true))
    const [caught] = violations
    progress(`planted fault "${fault}": ${caught === undefined ? 'NOT CAUGHT' : `caught (${caught})`}, ${cuts} cuts`)
    if (caught === undefined) missed.push(`the planted fault "${fault}" was not caught by ${cuts} power cuts`)
  }
  return missed
}

export interface PowerScore {
  readonly cuts: number
  readonly acknowledged: number
  readonly violations: readonly string[]
}

/** When the power goes. */
const MOMENTS = ['acknowledged', 'any', 'collected'] as const

/** A disk with a database and files, on which a server lives, loses its power, and lives again. */
class Power {
  private readonly folder: string
  private readonly image: DiskImage
  private readonly postgres: ImagePostgres
  private readonly fault: Fault | undefined
  private readonly random: () => number
  private victim: Victim | undefined
  private told = (): void => {}
  private readonly model = new Model(() => this.told())

  constructor(folder: string, image: DiskImage, postgres: ImagePostgres, fault: Fault | undefined, seed: number) {
    this.folder = folder
    this.image = image
    this.postgres = postgres
    this.fault = fault
    this.random = randomFrom(seed)
  }

  /** @param enough whether one violation is all that is wanted */
  async cuts(most: number, enough: boolean): Promise<PowerScore> {
    const violations: string[] = []
    let cuts = 0
    while (cuts < most && !(enough && violations.length > 0)) {
      const moment = MOMENTS[cuts % MOMENTS.length] as (typeof MOMENTS)[number]
      cuts++
      await this.playAndCut(moment)
      violations.push(...(await this.recover()).map((each) => `cut ${cuts}, ${moment}: ${each}`))
    }
    return { cuts, acknowledged: this.model.acknowledged, violations }
  }

  private async playAndCut(moment: (typeof MOMENTS)[number]): Promise<void> {
    const { url } = (this.victim ??= await startVictim(this.folder, this.postgres.url))
    const dark = new AbortController()
    const cut = () => {
      if (dark.signal.aborted) return
      this.image.cut()
      dark.abort()
    }
    const play = () => Promise.all(CLIENTS.map((ids) => this.model.play(url, ids)))
    if (moment === 'collected') {
      await play()
      await this.forgotten()
      cut()
    } else {
      if (moment === 'acknowledged') {
        let left = 1 + Math.floor(this.random() * 20)
        this.told = () => void (--left === 0 && cut())
      } else void sleep(this.random() * 1500).then(cut)
      while (!dark.signal.aborted) await play().catch(() => sleep(1))
    }
    this.told = () => {}
  }

  /** Somebody has taken bytes away, and forgot them a moment ago. */
  private async forgotten(): Promise<void> {
    const database = new pg.Client({ connectionString: this.postgres.url })
    await database.connect()
    try {
      let dead = 0
      for (const end = performance.now() + 10_000; performance.now() < end; await sleep(2)) {
        const { rows } = await database.query<{ n: number }>(
          "select count(*)::int as n from svc_catalog.svc_blob where state = 'dead'",
        )
        const n = rows[0]?.n ?? 0
        if (n < dead) return
        dead = n
      }
    } finally {
      await database.end()
    }
  }

  /** Power is back. @returns what is not as it must be */
  private async recover(): Promise<string[]> {
    this.victim?.process.kill('SIGKILL')
    await Promise.all([this.victim?.gone, this.postgres.kill()])
    await this.image.mountAgain()
    await this.postgres.start()
    this.victim = await startVictim(this.folder, this.postgres.url)
    const wrong = await this.model.check(this.victim.url)
    // A planted store of its own keeps bytes in its own way.
    if (this.fault === 'late') return wrong
    const database = new pg.Client({ connectionString: this.postgres.url })
    await database.connect()
    try {
      return [...wrong, ...(await checkDisk(database, this.folder))]
    } finally {
      await database.end()
    }
  }

  async stop(): Promise<void> {
    this.victim?.process.kill('SIGKILL')
    await this.victim?.gone
  }
}

async function withPower<T>(fault: Fault | undefined, seed: number, fn: (power: Power) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-trust-'))
  // The account of PostgreSQL has to get through.
  await chmod(folder, 0o711)
  const image = await makeDiskImage(join(folder, 'image'), join(folder, 'data'))
  const unplant = await writeConfig(folder, fault)
  const postgres = await makeImagePostgres(join(folder, 'data', 'postgres'))
  await postgres.start()
  image.sync()
  const power = new Power(folder, image, postgres, fault, seed)
  try {
    return await fn(power)
  } finally {
    await power.stop()
    await postgres.kill()
    await image.remove()
    await unplant()
    await rm(folder, { recursive: true, force: true })
  }
}
