import { mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, cpus, loadavg, release, tmpdir, totalmem, type as systemType } from 'node:os'
import { join, resolve } from 'node:path'
import type { Bench, Build } from './bench.js'
import { commitOf, prepareCheckout } from './checkout.js'
import { differencesOf } from './compare.js'
import { loadData, loadMetadata } from './data.js'
import { startDatabase, withClient } from './database.js'
import { AGAIN, floorOf } from './floor.js'
import { chooseTool } from './load/load.js'
import { createGuard } from './noise.js'
import { type Options, readOptions, USAGE, WAIT_MINUTES } from './options.js'
import { installPeers } from './peers.js'
import { type PeersByUrl, reachPeers } from './peers-by-url.js'
import { createDisplay } from './progress.js'
import { ratiosOf } from './ratios.js'
import { writeReport } from './report/write.js'
import { readResults, type Result, RESULTS, resultName, writeResult } from './result.js'
import { withRunContext } from './run-context.js'
import { SCENARIOS } from './scenarios/index.js'
import type { Section } from './section.js'
import { type Servers, startServers } from './servers.js'
import { summary } from './summary.js'
import { createPolicies } from './systems/peer.js'
import { startBuild } from './systems/server.js'
import { verdictsOf } from './targets.js'

const SECONDS = 30
/** Of one window in a run without options, with what is around it. */
const QUICK_WINDOW = 1.65
const QUICK_ROUNDS = 5

const options = readArguments()
const planned = options.scenarios.map(({ seconds = SECONDS }) => seconds * stretchOf(options))
const display = createDisplay(process.stderr, planned)
const progress = (text: string): void => display.show(text)
const guard = createGuard({
  calibrationMs: options.window.kind === 'requests' ? 10 : options.full ? 1000 : 300,
  repeats: options.window.kind === 'requests' ? 0 : 3,
  progress,
})
const peers = await installPeers(options.peers, progress)
const folder = await mkdtemp(join(tmpdir(), 'rowhouse-bench-files-'))
const checkout = options.compare === undefined ? undefined : await prepareCheckout()
const database = await startDatabase()
// The servers end with this process; what is on the disk is deleted first.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void cleanUp().finally(() => process.exit(1)))
}
try {
  await main()
} finally {
  await cleanUp()
}

async function main(): Promise<void> {
  const { window, rounds, size, full, scenarios, compare } = options
  const loadBefore = loadavg()
  const builds = await prepareBuilds(compare)
  const url = builds[0]?.url ?? ''
  const peersByUrl = await reachPeersOn(url)
  const tool = chooseTool(window)
  let started: Promise<Servers> | undefined
  const servers = () => (started ??= startServers(url, peers, builds))
  const bench: Bench = {
    database,
    url,
    size,
    rounds,
    window,
    tool,
    peers,
    peersByUrl,
    servers,
    folder,
    progress,
    full,
    builds,
    leadIn: { kind: 'seconds', seconds: full ? 1 : 0.5 },
    comparing: compare !== undefined,
  }

  const sections: Section[] = []
  await withRunContext({ guard, display }, async () => {
    for (const { id, name, measure } of scenarios) {
      display.scenario(id, name)
      // A quick run has its few repeats for all of it.
      if (full) guard.renew()
      sections.push(...[await measure(bench)].flat())
    }
  })
  await (await started)?.stop()
  display.end()

  const floor = floorOf(sections)
  const result: Result = {
    format: 1,
    date: new Date().toISOString(),
    build: await commitOf(),
    machine: {
      cpus: availableParallelism(),
      model: cpus()[0]?.model.trim() ?? '',
      memoryMiB: Math.round(totalmem() / 2 ** 20),
      system: `${systemType()} ${release()}`,
      loadBefore,
      loadAfter: loadavg(),
    },
    versions: { node: process.version, postgres: database.version },
    settings: await database.settings(),
    options: { size: size.name, rounds, window, full, peers: options.peers, scenarios: scenarios.map(({ id }) => id) },
    tool,
    noise: { ...guard.noise(), ...(floor === undefined ? {} : { floor }) },
    sections: sections.map((section) => ({ ...section, ratios: ratiosOf(section), verdicts: verdictsOf(section) })),
    notRun: SCENARIOS.filter((scenario) => !scenarios.includes(scenario)).map(({ id, name }) => ({
      id,
      name,
      reason: compare === undefined ? `runs with --full, or with --only ${id}` : 'is not part of a comparison',
    })),
    ...(compare === undefined
      ? {}
      : {
          comparison: {
            ref: compare,
            build: await commitOf(compare),
            differences: differencesOf(sections, builds[1]?.suffix ?? ''),
          },
        }),
  }
  await publish(result)
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
  // A figure that does not count must not look like a success.
  const invalid = result.sections.some(({ cells }) => cells.some((cell) => cell.void !== undefined))
  const worse = result.comparison?.differences.some((difference) => difference.worse) ?? false
  if (invalid || worse) process.exitCode = 1
}

/** Loads the data for each build that has a database of its own. */
async function prepareBuilds(compare: string | undefined): Promise<readonly Build[]> {
  const load = async (name: string, build: Omit<Build, 'url'>): Promise<Build> => {
    progress(`PostgreSQL ${database.version}; loading data, size ${options.size.name}`)
    const loaded = { ...build, url: await database.create(name) }
    await withClient(loaded.url, async (client) => {
      await loadData(client, options.size)
      if (peers.peers.length > 0 || options.peerUrls.length > 0) await createPolicies(client)
    })
    const server = await startBuild(loaded)
    await loadMetadata(server.ask)
    await server.stop()
    return loaded
  }
  if (compare === undefined || checkout === undefined) {
    const own = await load('bench', { suffix: '' })
    return options.full ? [own, { ...own, suffix: AGAIN }] : [own]
  }
  const { sha } = await commitOf(compare)
  if (sha === 'unknown') throw new Error(`--compare: git knows no commit "${compare}"`)
  await checkout.make(sha, progress)
  const other = { suffix: ` at ${sha}`, folder: checkout.build }
  return [await load('bench', { suffix: '' }), await load('bench_other', other)]
}

async function cleanUp(): Promise<void> {
  await checkout?.remove()
  await database.stop()
  await rm(folder, { recursive: true, force: true })
}

/** How much longer than a run without options it takes. */
function stretchOf({ rounds, window, full }: Options): number {
  const each = window.kind === 'seconds' ? window.seconds + QUICK_WINDOW - 1 : 1
  return (rounds / QUICK_ROUNDS) * (each / QUICK_WINDOW) * (full ? 2 : 1)
}

function readArguments(): Options {
  try {
    const read = readOptions(process.argv.slice(2))
    if (read !== 'help') return read
    console.log(USAGE)
    process.exit(0)
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`)
    process.exit(2)
  }
}
