import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, cpus, loadavg, tmpdir, totalmem, type as systemType } from 'node:os'
import { join, resolve } from 'node:path'
import type { Bench } from './bench.js'
import { commitOf, prepareCheckout } from './checkout.js'
import { type Difference, hasNoVerdict, isWorse } from './compare.js'
import { otherUse } from './cpu.js'
import { loadData, loadMetadata } from './data.js'
import { type BenchDatabase, startDatabase, withClient } from './database.js'
import { watchInterruptions } from './interruption.js'
import { type Options, readOptions, USAGE, WAIT_MINUTES } from './options.js'
import { compareBuilds, prepareCompared } from './paired.js'
import { installPeers, type Peers } from './peers.js'
import { type PeersByUrl, reachPeers } from './peers-by-url.js'
import { createDisplay } from './progress.js'
import { ratiosOf } from './ratios.js'
import { writeReport } from './report/write.js'
import { checkWritable, readResults, type Result, RESULTS, resultName, writeResult } from './result.js'
import { withRunContext } from './run-context.js'
import { SCENARIOS } from './scenarios/index.js'
import type { Section } from './section.js'
import { type Servers, startServers } from './servers.js'
import { summary } from './summary.js'
import { createPolicies } from './systems/peer.js'
import { startServerChild } from './systems/server.js'
import { verdictsOf } from './targets.js'

const SECONDS = 30
/** Of one window in a run without options, with what is around it. */
const QUICK_WINDOW = 1.65
const QUICK_ROUNDS = 5

const options = await readArguments()
const planned = options.scenarios.map(({ seconds = SECONDS }) => seconds * stretchOf(options))
const display = createDisplay(process.stderr, planned)
const progress = (text: string): void => display.show(text)
const cleanUp = watchInterruptions((text) => {
  display.end()
  console.error(text)
})
const trial = options.window.kind === 'requests'
try {
  await main()
} catch (error) {
  // An error of a run that is interrupted is of no interest; the process ends when all is cleaned up.
  if (!cleanUp.interrupted) throw error
} finally {
  await cleanUp.run()
}

async function main(): Promise<void> {
  const { window, rounds, size, full, scenarios, compare: ref } = options
  // Now: commits may be made while this runs.
  const build = await commitOf()
  const other = ref === undefined ? undefined : await commitOf(ref)
  const loadBefore = loadavg()
  const useBefore = await otherUse()
  const peers = await installPeers(options.peers, progress)
  const starting = startDatabase()
  // While it starts nothing of it can be taken away.
  cleanUp.add(() =>
    starting.then(
      (started) => started.stop(),
      () => {},
    ),
  )
  const database = await starting
  const differences = other === undefined ? undefined : await compare(database, other.sha)
  const sections = differences === undefined ? await measureAll(database, peers) : []
  display.end()

  const result: Result = {
    format: 2,
    date: new Date().toISOString(),
    build,
    machine: {
      cpus: availableParallelism(),
      model: cpus()[0]?.model.trim() ?? '',
      memoryMiB: Math.round(totalmem() / 2 ** 20),
      system: systemType(),
      loadBefore,
      loadAfter: loadavg(),
      useBefore,
    },
    versions: { node: process.version, postgres: database.version },
    settings: await database.settings(),
    options: { size: size.name, rounds, window, full, peers: options.peers, scenarios: scenarios.map(({ id }) => id) },
    tool: 'own',
    sections: sections.map((section) => ({ ...section, ratios: ratiosOf(section), verdicts: verdictsOf(section) })),
    notRun: SCENARIOS.filter((scenario) => !scenarios.includes(scenario)).map(({ id, name }) => ({
      id,
      name,
      reason: ref === undefined ? `runs with --full, or with --only ${id}` : 'is not part of this comparison',
    })),
    ...(ref === undefined || other === undefined || differences === undefined
      ? {}
      : { comparison: { ref, build: other, differences } }),
  }
  await publish(result)
}

async function measureAll(database: BenchDatabase, peers: Peers): Promise<readonly Section[]> {
  const { window, rounds, size, full, scenarios } = options
  const folder = join(tmpdir(), `rowhouse-bench-files-${randomUUID()}`)
  cleanUp.add(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  await mkdir(folder, { mode: 0o700 })
  const url = await prepareData(database, peers)
  const peersByUrl = await reachPeersOn(url)
  let started: Promise<Servers> | undefined
  const servers = () => (started ??= startServers(url, peers))
  const bench: Bench = {
    database,
    url,
    size,
    rounds,
    window,
    peers,
    peersByUrl,
    servers,
    folder,
    progress,
    full,
    leadIn: trial ? undefined : { kind: 'seconds', seconds: full ? 1 : 0.5 },
  }

  const sections: Section[] = []
  await withRunContext({ display }, async () => {
    for (const { id, name, measure } of scenarios) {
      display.scenario(id, name)
      sections.push(...[await measure(bench)].flat())
    }
  })
  await (await started)?.stop()
  return sections
}

/** Says where the data is, so that servers can be started on it. */
async function reachPeersOn(databaseUrl: string): Promise<PeersByUrl> {
  const { peerUrls, size } = options
  display.end()
  if (peerUrls.length > 0) console.error(`the data: ${databaseUrl}`)
  return reachPeers(peerUrls, { databaseUrl, size, env: process.env, waitMs: WAIT_MINUTES * 60_000, progress })
}

/** Prints it, and writes the result and its report. */
async function publish(result: Result): Promise<void> {
  console.log(summary(result, options.markdown ? 'short' : 'all'))
  const { json, save } = options
  const file =
    json === undefined ? join(await mkdtemp(join(tmpdir(), 'rowhouse-bench-')), 'result.json') : resolve(json)
  await writeResult(result, file)
  console.error(`result: ${file}`)
  const kept = await readResults(RESULTS)
  if (save) {
    const saved = join(RESULTS, resultName(result))
    await writeResult(result, saved)
    console.error(`kept: ${saved}`)
  }
  console.error(`report: ${await writeReport(result, kept, `${file}.html`)}`)
  process.exitCode = exitCodeOf(result)
}

/** A figure that does not count must not look like a success, nor a comparison that says nothing. */
function exitCodeOf({ sections, comparison }: Result): number {
  const invalid = sections.some(({ cells }) => cells.some((cell) => cell.void !== undefined))
  if (invalid || comparison?.differences.some(isWorse)) return 1
  return comparison !== undefined && hasNoVerdict(comparison) ? 3 : 0
}

/** @returns the URL of the database with the data */
async function prepareData(database: BenchDatabase, peers: Peers): Promise<string> {
  progress(`PostgreSQL ${database.version}; loading data, size ${options.size.name}`)
  const url = await database.create('bench')
  await withClient(url, async (client) => {
    await loadData(client, options.size)
    if (peers.peers.length > 0 || options.peerUrls.length > 0) await createPolicies(client)
  })
  const server = await startServerChild(url)
  await loadMetadata(server.ask)
  await server.stop()
  return url
}

/** @param sha of the other build */
async function compare(database: BenchDatabase, sha: string): Promise<readonly Difference[]> {
  const checkout = await prepareCheckout()
  cleanUp.add(() => checkout.remove())
  await checkout.make(sha, progress)
  const builds = [
    { url: await database.create('bench') },
    { url: await database.create('bench_other'), folder: checkout.build },
  ] as const
  for (const build of builds) await prepareCompared(build)
  const { scenarios, minutes } = options
  return compareBuilds(builds, { database, scenarios, minutes, trial, progress })
}

/** How much longer than a run without options it takes. */
function stretchOf({ rounds, window, full }: Options): number {
  const each = window.kind === 'seconds' ? window.seconds + QUICK_WINDOW - 1 : 1
  return (rounds / QUICK_ROUNDS) * (each / QUICK_WINDOW) * (full ? 2 : 1)
}

/** What is wrong is said before anything is made. */
async function readArguments(): Promise<Options> {
  try {
    const read = readOptions(process.argv.slice(2))
    if (read === 'help') {
      console.log(USAGE)
      process.exit(0)
    }
    const { json, compare } = read
    if (json !== undefined)
      await checkWritable(resolve(json)).catch((error: Error) => {
        throw new Error(`--json: ${error.message}`, { cause: error })
      })
    if (compare !== undefined && (await commitOf(compare)).sha === 'unknown')
      throw new Error(`--compare: git knows no commit, branch or tag "${compare}" here`)
    return read
  } catch (error) {
    const [sentence] = (error instanceof Error ? error.message : String(error)).split(/\. |\n/)
    console.error(`${sentence}; see --help`)
    process.exit(2)
  }
}
