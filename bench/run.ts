import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, cpus, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Bench } from './bench.js'
import { FULL, loadData, loadMetadata, SMALL } from './data.js'
import { startDatabase, withClient } from './database.js'
import { chooseTool, type Window } from './load/load.js'
import { installPeers } from './peers.js'
import { GROWTH } from './scenarios/growth/index.js'
import { SCENARIOS } from './scenarios/index.js'
import type { Section } from './section.js'
import { type Servers, startServers } from './servers.js'
import { createPolicies } from './systems/peer.js'
import { startServerChild } from './systems/server.js'
import { table } from './table.js'

const USAGE = `node build/bench/run.js [--seconds N] [--rounds N] [--only a,b,...] [--full] [--peers] [--json FILE]

  --seconds N    length of a window, default 3; a second before each is not counted
  --rounds N     windows of each system, default 5
  --only a,b     scenarios, default all but growth: ${SCENARIOS.map(({ id, name }) => `${id} ${name}`).join(', ')}
  --full         10,000 authors, 200,000 articles, 1,000,000 comments instead of a hundredth of them; 1 GiB as the largest
                 file instead of 128 MiB
  --peers        other servers beside ours, in a to d; installed when they are first asked for
  --json FILE    every window, besides the table on standard output
  --requests N   windows of so many requests instead of seconds: to try the bench out, not to measure`

const IDS = SCENARIOS.map(({ id }) => id)
const QUICK = IDS.filter((id) => GROWTH.every((each) => each.id !== id))

const options = readOptions()
const peers = await installPeers(options.peers, progress)
const folder = await mkdtemp(join(tmpdir(), 'rowhouse-bench-files-'))
const database = await startDatabase()
// The servers end with this process; the database is stopped and deleted first.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void cleanUp().finally(() => process.exit(1)))
}
try {
  await main()
} finally {
  await cleanUp()
}

async function main(): Promise<void> {
  const { window, rounds, size, only, json } = options
  const loadBefore = loadavg()
  progress(`PostgreSQL ${database.version}; loading data, size ${size.name}`)
  const url = await database.create('bench')
  await withClient(url, async (client) => {
    await loadData(client, size)
    if (peers.peers.length > 0) await createPolicies(client)
  })
  const server = await startServerChild(url)
  await loadMetadata(server.ask)
  await server.stop()
  const tool = chooseTool(window)
  let started: Promise<Servers> | undefined
  const servers = () => (started ??= startServers(url, peers))
  const bench: Bench = { database, url, size, rounds, window, tool, peers, servers, folder, progress }

  const sections: Section[] = []
  for (const { id, measure } of SCENARIOS) if (only.has(id)) sections.push(...[await measure(bench)].flat())
  await (await started)?.stop()

  const about = {
    date: new Date().toISOString(),
    machine: { cpus: availableParallelism(), model: cpus()[0]?.model ?? '', loadBefore, loadAfter: loadavg() },
    versions: { node: process.version, postgres: database.version },
    settings: await database.settings(),
    size: size.name,
    window,
    rounds,
    tool,
  }
  console.log(`${heading(about)}\n${sections.map(table).join('\n')}`)
  if (json !== undefined) await writeFile(json, `${JSON.stringify({ ...about, sections }, undefined, 2)}\n`)
  // A figure that does not count must not look like a success.
  if (sections.some(({ cells }) => cells.some((cell) => cell.void !== undefined))) process.exitCode = 1
}

interface About {
  readonly machine: { readonly cpus: number; readonly model: string; readonly loadBefore: readonly number[] }
  readonly versions: { readonly node: string; readonly postgres: string }
  readonly settings: Readonly<Record<string, string>>
  readonly size: string
  readonly window: Window
  readonly rounds: number
  readonly tool: string
}

/** What the figures depend on. */
function heading({ machine, versions, settings, size, window, rounds, tool }: About): string {
  const length = window.kind === 'seconds' ? `${window.seconds} s` : `${window.requests} requests, which prove nothing`
  const load = (machine.loadBefore[0] ?? 0).toFixed(1)
  return [
    `${machine.cpus} CPUs (${machine.model}), load before ${load}; database, servers and load tool share them.`,
    `Node ${versions.node}, PostgreSQL ${versions.postgres}: ${Object.entries(settings)
      .map(([name, setting]) => `${name} ${setting}`)
      .join(', ')}.`,
    `Data ${size}; ${rounds} rounds; windows of ${length}; load tool: ${tool}. Medians (least..most).`,
    '',
  ].join('\n')
}

async function cleanUp(): Promise<void> {
  await database.stop()
  await rm(folder, { recursive: true, force: true })
}

function progress(text: string): void {
  console.error(text)
}

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        seconds: { type: 'string', default: '3' },
        requests: { type: 'string' },
        rounds: { type: 'string', default: '5' },
        only: { type: 'string', default: QUICK.join(',') },
        json: { type: 'string' },
        full: { type: 'boolean', default: false },
        peers: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    })
    if (values.help) {
      console.log(USAGE)
      process.exit(0)
    }
    const window: Window =
      values.requests === undefined
        ? { kind: 'seconds', seconds: whole(values.seconds, '--seconds') }
        : { kind: 'requests', requests: whole(values.requests, '--requests') }
    const only = new Set(values.only.split(','))
    for (const id of only)
      if (!IDS.includes(id)) throw new Error(`--only: no scenario "${id}"; there are ${IDS.join()}`)
    const rounds = whole(values.rounds, '--rounds')
    return { window, rounds, only, size: values.full ? FULL : SMALL, peers: values.peers, json: values.json }
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`)
    process.exit(2)
  }
}

function whole(text: string, option: string): number {
  const value = Number(text)
  if (Number.isInteger(value) && value > 0) return value
  throw new Error(`${option} should be a whole number above 0, not "${text}"`)
}
