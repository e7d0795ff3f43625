import { createHash } from 'node:crypto'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Bench } from '../bench.js'
import { readMemory } from '../cpu.js'
import { FULL } from '../data.js'
import { withClient } from '../database.js'
import { piecesOf } from '../load/pattern.js'
import { type Load, runClient } from '../load/load.js'
import type { TransferJob } from '../load/transfers.js'
import type { Peer } from '../peers.js'
import { measured } from '../load-rounds.js'
import { interleave, type Job, type Measured, type Section, type Target } from '../section.js'
import { findProgram, runProgram } from '../program.js'
import { type Child, startChild } from '../systems/child.js'
import { findNginx, startNginx } from '../systems/nginx.js'
import { byGateway, type FilesOnDisk, NOTHING_MUCH, queryPost, startServerChild } from '../systems/server.js'

const KIB = 1024
const MIB = 1024 * KIB
const COLUMNS = {
  rps: 'requests/s',
  rate: 'MiB/s',
  p50: 'p50 ms',
  p99: 'p99 ms',
  server: 'server CPU µs/request',
  database: 'PostgreSQL CPU µs/request',
  peak: 'peak RSS MiB',
}
const CLEANED_MS = 60_000

interface Transfer {
  readonly method: 'GET' | 'PUT'
  readonly bytes: number
  readonly clients: number
  /** How many different files are fetched. */
  readonly count: number
}

/** Files of three sizes, fetched and sent, beside nginx on the same file system. */
export async function measureFiles(bench: Bench): Promise<Section[]> {
  const trial = bench.window.kind === 'requests'
  const nginx = await findNginx(!trial, bench.progress)
  const large = { bytes: bench.size === FULL ? KIB * MIB : 128 * MIB, clients: 1, count: 1 }
  const small = { bytes: KIB, clients: 16, count: 100 }
  const medium = { bytes: MIB, clients: 8, count: 16 }
  const sections: Section[] = []
  for (const size of [small, medium]) {
    const both = (['GET', 'PUT'] as const).map((method) => ({ method, ...size }))
    sections.push(...(await measureTransfers(bench, both, nginx)))
  }
  // Servers of their own: the peak of their memory is of these files.
  for (const method of trial ? [] : (['GET', 'PUT'] as const)) {
    sections.push(...(await measureTransfers(bench, [{ method, ...large }], nginx)))
  }
  return sections
}

async function measureTransfers(
  bench: Bench,
  transfers: readonly Transfer[],
  nginx: string | undefined,
): Promise<Section[]> {
  const systems: System[] = []
  try {
    systems.push(await startOurs(bench, 'rowhouse', 'process'))
    systems.push(await startOurs(bench, 'rowhouse, durability full', 'full'))
    if (nginx !== undefined) systems.push(await startTheirs(bench, nginx))
    systems.push(await startLeast())
    for (const peer of bench.peers.peers) if (peer.kind === 'tus') systems.push(await startTus(bench, peer))
    const sections: Section[] = []
    for (const transfer of transfers) {
      const able = systems.filter(({ does }) => does(transfer))
      sections.push(await measureTransfer(bench, transfer, able, nginx === undefined))
    }
    return sections
  } finally {
    for (const system of systems) await system.stop()
  }
}

async function measureTransfer(
  bench: Bench,
  transfer: Transfer,
  systems: readonly System[],
  withoutNginx: boolean,
): Promise<Section> {
  const { method, bytes, clients } = transfer
  const name = `${method} of ${sizeName(bytes)}`
  for (const system of systems) await prepare(system, transfer)
  const dd = method === 'PUT' && bytes > MIB ? findProgram('dd') : undefined
  const jobs: Job[] = [
    ...systems.map((system) => ({ system: system.name, measure: () => measure(bench, transfer, system) })),
    ...(dd === undefined ? [] : [{ system: 'dd', measure: () => measureCopy(bench, transfer, dd) }]),
  ]
  const cells = await interleave(jobs, bench.rounds, (text) => bench.progress(`h: ${name}: ${text}`))
  if (!areKept(transfer)) for (const { clear } of systems) await clear()
  return {
    id: 'h',
    title: `${name}, ${clients} ${clients === 1 ? 'client' : 'clients'}`,
    columns: COLUMNS,
    compared: 'rps',
    lessIsBetter: ['p50', 'p99', 'server', 'database', 'peak'],
    targets: targetsOf(transfer),
    cells,
    notMeasured: withoutNginx ? ['nginx, which is not installed (Debian: nginx-light)'] : [],
  }
}

const MOST_MIB = 130

const targetsOf = ({ bytes }: Transfer): readonly Target[] =>
  bytes > MIB ? [{ system: 'rowhouse', figure: 'peak', most: MOST_MIB }] : []

/**
 * The smallest stay where they are until the run ends. For minutes after many files were deleted ext4 needs ten times as long
 * to make one, and every system would be measured at that.
 */
const areKept = ({ bytes }: Transfer): boolean => bytes <= KIB

interface System {
  readonly name: string
  readonly child: Child
  readonly headers: Readonly<Record<string, string>>
  /** Of a file; its number comes behind. */
  readonly path: string
  /** What it is sent files by, where not by PUT: then its answer says where the file is. */
  readonly sendBy?: 'POST'
  does(transfer: Transfer): boolean
  /** Takes away all files. */
  clear(): Promise<void>
  stop(): Promise<void>
}

/** Asked by a role that may read and store any file, with one permission for each operation. */
async function startOurs(bench: Bench, name: string, durability: FilesOnDisk['durability']): Promise<System> {
  const folder = await mkdtemp(join(bench.folder, 'ours-'))
  const url = await bench.database.create(`files_${folder.slice(-6).toLowerCase()}`)
  const child = await startServerChild(url, NOTHING_MUCH, { files: { folder, durability } })
  return {
    name,
    child,
    headers: { ...byGateway, 'content-type': 'application/octet-stream' },
    path: '/v1/file/f',
    // Reading is the same.
    does: ({ method }) => method === 'PUT' || durability === 'process',
    clear: () => clearOurs(url),
    stop: () => child.stop(),
  }
}

/** The collector takes the bytes away. */
function clearOurs(url: string): Promise<void> {
  return withClient(url, async (client) => {
    await client.query('delete from svc_catalog.svc_file')
    for (const start = performance.now(); performance.now() - start < CLEANED_MS; await sleep(100)) {
      const { rows } = await client.query('select from svc_catalog.svc_blob limit 1')
      if (rows.length === 0) return
    }
    throw new Error('h: the bytes of deleted files are still there')
  })
}

async function startTheirs(bench: Bench, program: string): Promise<System> {
  const folder = await mkdtemp(join(bench.folder, 'nginx-'))
  const child = await startNginx(program, folder)
  const files = join(folder, 'files')
  return {
    name: 'nginx',
    child,
    headers: {},
    path: '/f',
    does: () => true,
    async clear() {
      for (const file of await readdir(files)) await rm(join(files, file))
    },
    stop: () => child.stop(),
  }
}

async function startLeast(): Promise<System> {
  const child = await startChild('koa', {}, queryPost({}, {}))
  return {
    name: 'koa',
    child,
    headers: {},
    path: `/?bytes=${KIB}&n=`,
    does: ({ method, bytes }) => method === 'GET' && bytes === KIB,
    clear: async () => {},
    stop: () => child.stop(),
  }
}

/** It takes files in one request, when it is told how long they are. Fetching is not a part of the protocol. */
async function startTus(bench: Bench, { name, folder: packages }: Peer): Promise<System> {
  const folder = await mkdtemp(join(bench.folder, 'tus-'))
  const headers = { 'tus-resumable': '1.0.0' }
  const env = { PEER_FOLDER: packages, FILES: folder }
  const child = await startChild('tus', env, { method: 'OPTIONS', path: '/files', headers, body: '' })
  return {
    name,
    child,
    headers: { ...headers, 'content-type': 'application/offset+octet-stream' },
    path: '/files?n=',
    sendBy: 'POST',
    does: ({ method }) => method === 'PUT',
    async clear() {
      for (const file of await readdir(folder)) await rm(join(folder, file), { recursive: true })
    },
    stop: () => child.stop(),
  }
}

/** Stores files, and checks that each is got back as it was, before anything is timed. */
async function prepare(system: System, transfer: Transfer): Promise<void> {
  const { method, bytes, count } = transfer
  const wanted = digest(piecesOf(bytes))
  for (let n = 0; n < (method === 'GET' ? count : 1); n++) {
    const place = system.name === 'koa' ? addressOf(system, n) : await store(system, n, bytes)
    const answer = await fetch(place, { headers: system.headers })
    if (answer.status !== 200) throw new Error(`h: ${system.name} answers GET with ${answer.status}`)
    const hash = createHash('sha256')
    for await (const chunk of answer.body ?? []) hash.update(chunk as Uint8Array)
    if (hash.digest('hex') !== wanted) throw new Error(`h: ${system.name} does not give back what it was given`)
  }
  if (method === 'PUT' && !areKept(transfer)) await system.clear()
}

/** @returns where the file is then */
async function store(system: System, n: number, bytes: number): Promise<string> {
  const body = Readable.toWeb(Readable.from(piecesOf(bytes))) as ReadableStream
  const headers = { ...headersOf(system, bytes), 'content-length': String(bytes) }
  const address = addressOf(system, n)
  const answer = await fetch(address, { method: system.sendBy ?? 'PUT', headers, body, duplex: 'half' })
  if (answer.status >= 300) throw new Error(`h: ${system.name} answers an upload with ${answer.status}`)
  return new URL(answer.headers.get('location') ?? address, address).href
}

/** A tus server wants to be told before. */
const headersOf = ({ headers, sendBy }: System, bytes: number): Readonly<Record<string, string>> =>
  sendBy === 'POST' ? { ...headers, 'upload-length': String(bytes) } : headers

const addressOf = ({ child, path }: System, n: number): string => `http://127.0.0.1:${child.port}${path}${n}`

function digest(pieces: Iterable<Buffer>): string {
  const hash = createHash('sha256')
  for (const piece of pieces) hash.update(piece)
  return hash.digest('hex')
}

let windows = 0

async function measure(bench: Bench, transfer: Transfer, system: System): Promise<Awaited<ReturnType<Job['measure']>>> {
  const { method, bytes, clients, count } = transfer
  const { child, path, clear, sendBy } = system
  const cell = await measured(bench, child, async (window) => {
    const upload = method === 'PUT'
    // A file is stored once: a name of its own for each.
    const place = upload ? { path: `${path}${++windows}-`, count: null } : { path, count }
    const how = { method, headers: headersOf(system, bytes), ...(sendBy ? { sendBy } : {}) }
    const job: TransferJob = { port: child.port, bytes, clients, window, ...how, ...place }
    const load = await runClient<Load>('transfer-client', job)
    return { ...load, rate: (load.rps * bytes) / MIB }
  })()
  if (method === 'PUT' && !areKept(transfer)) await clear()
  const peak = readMemory(child.pid, 'VmHWM')
  return { ...cell, figures: { ...cell.figures, peak } }
}

/** Copies a file to another one, as often as the window allows: what the file system can do. */
async function measureCopy(bench: Bench, { bytes }: Transfer, dd: string): Promise<Measured> {
  const folder = await mkdtemp(join(bench.folder, 'dd-'))
  try {
    const from = join(folder, 'from')
    await writeFile(from, piecesOf(bytes))
    return await measured(bench, undefined, async (window) => {
      const start = performance.now()
      const goesOn = (copies: number) =>
        window.kind === 'requests' ? copies < window.requests : performance.now() - start < window.seconds * 1000
      let copies = 0
      for (; goesOn(copies); copies++) {
        const to = join(folder, `to${copies}`)
        await runProgram(dd, [`if=${from}`, `of=${to}`, 'bs=1M', 'status=none'])
        await rm(to)
      }
      const rps = copies / ((performance.now() - start) / 1000)
      return { requests: copies, failures: 0, rps, rate: (rps * bytes) / MIB }
    })()
  } finally {
    await rm(folder, { recursive: true })
  }
}

const sizeName = (bytes: number): string =>
  bytes >= KIB * MIB ? `${bytes / MIB / KIB} GiB` : bytes >= MIB ? `${bytes / MIB} MiB` : `${bytes / KIB} KiB`
