import { spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rm, statfs, unlink } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { freshDatabase } from '../../kit/database.js'
import { ADMIN_SECRET } from '../../kit/server.js'
import { until } from '../../kit/until.js'
import type { PartOptions, Score } from '../part.js'
import { checkDisk } from './model.js'
import { tamper } from './tamper.js'
import { startVictim, type Victim, writeConfig } from './victim.js'

/** Calls to the system that fail, one after the other, and a disk that is full, read-only, or has lost bytes. */
export async function diskFaults({ progress }: PartOptions): Promise<Score> {
  const injected = await refusedCalls()
  progress(`disk: ${injected.faults} calls refused`)
  const room = mayMount() ? await withDisk(TMPFS, fillUp) : undefined
  progress(
    room ? `disk: ${room.faults} times no room` : 'disk: NOT RUN: a disk without room (tmpfs may not be mounted here)',
  )
  return {
    done: `${injected.faults} calls refused, ${room ? `${room.faults} times no room` : 'a disk without room NOT RUN'}`,
    violations: [...injected.violations, ...(room?.violations ?? [])],
    figures: [],
  }
}

/** Of an upload, a download and a collection. */
export async function refusedCalls(): Promise<Faults> {
  return withDisk([], async (disk) => {
    for (const [call, errno, most] of REFUSED) {
      for (let n = 1; n <= most; n++) await disk.uploadWith(call, errno, n)
    }
    for (const errno of ['EIO', 'ENOSPC']) for (let n = 1; n <= 3; n++) await disk.uploadWithWrite(errno, n)
    for (let n = 1; n <= 5; n++) await disk.downloadWith('read,pread64', 'EIO', n)
    for (const errno of ['EIO', 'EMFILE', 'EACCES']) await disk.downloadWith('openat', errno, 1)
    await disk.collectWith()
    await disk.lose()
    return disk.score()
  })
}

interface Faults {
  readonly faults: number
  readonly violations: readonly string[]
}

/** What an upload asks of the system, why it is refused, and how often it asks. */
const REFUSED: readonly (readonly [call: string, errno: string, most: number])[] = [
  ['openat', 'EMFILE', 2],
  ['openat', 'ENFILE', 1],
  ['openat', 'EROFS', 1],
  ['openat', 'EDQUOT', 1],
  ['openat', 'ENOSPC', 1],
  ['openat', 'EIO', 2],
  ['fsync', 'EIO', 2],
  ['fsync', 'ENOSPC', 2],
  ['fsync', 'EDQUOT', 1],
  ['close', 'EIO', 2],
]
/** Of these an upload says that it may be tried again. */
const LATER = new Set(['ENOSPC', 'EDQUOT', 'EROFS', 'EMFILE', 'ENFILE'])
const HEADERS = { 'X-Service-Admin-Secret': ADMIN_SECRET, 'X-Service-User-Id': '1', 'Content-Type': 'a/b' }
const GIVE_UP_MS = 20_000
/** More than is sent from memory. */
const BYTES = 3 * 2 ** 20
/** In which a download reads them. */
const PIECES = 3
const TMPFS = ['-t', 'tmpfs', '-o', 'size=64m', 'tmpfs']
const WRITE_BYTES = 196_608

/** Whether a call was made to fail. */
const wasHit = async (log: string): Promise<boolean> => (await readFile(log, 'utf8')).includes('(INJECTED)')

/** A server, one file of which is known, and a disk under it that fails. */
class FaultyDisk {
  private readonly folder: string
  private readonly victim: Victim
  private readonly database: pg.Client
  private readonly violations: string[] = []
  private content: Buffer = Buffer.alloc(0)
  private faults = 0

  constructor(folder: string, victim: Victim, database: pg.Client) {
    this.folder = folder
    this.victim = victim
    this.database = database
  }

  get data(): string {
    return join(this.folder, 'data')
  }

  async begin(): Promise<void> {
    await this.upload('the first', () => [200])
  }

  async score(): Promise<Faults> {
    const left = await checkDisk(this.database, this.folder)
    return { faults: this.faults, violations: [...this.violations, ...left.map((each) => `in the end: ${each}`)] }
  }

  /** The n-th call of the thread that works on files fails. */
  async uploadWith(call: string, errno: string, n: number): Promise<void> {
    const log = join(this.folder, 'log')
    const what = `${call} ${n} ${errno}`
    const strace = await tamper(
      this.victim,
      ['-e', 'trace=fsync,close,openat,unlink', '-e', `inject=${call}:error=${errno}:when=${n}`],
      log,
    )
    await this.upload(what, () => [LATER.has(errno) ? 503 : 500])
    await strace.stop()
    this.violations.push(...repeatedFsyncs(await readFile(log, 'utf8')).map((each) => `${what}: ${each}`))
    await this.stillThere(what)
  }

  /** The n-th write after half of the bytes fails. */
  async uploadWithWrite(errno: string, n: number): Promise<void> {
    const what = `write ${n} ${errno}`
    const known = new Set(await this.blobs())
    const bytes = randomBytes(BYTES)
    const req = request(`${this.victim.url}/v1/file/f`, { method: 'PUT', headers: HEADERS, signal: limit() })
    const answer = new Promise<Response>((resolve, reject) => {
      req.on('error', reject).on('response', (res) => {
        const text: Buffer[] = []
        res.on('data', (chunk: Buffer) => text.push(chunk))
        res.on('end', () =>
          resolve(new Response(Buffer.concat(text), { status: res.statusCode as number, headers: headersOf(res) })),
        )
      })
    })
    req.write(bytes.subarray(0, BYTES / 2))
    let path = ''
    await until('the bytes have a place', async () => {
      path = (await this.blobs()).find((each) => !known.has(each)) ?? ''
      return path !== ''
    })
    const log = join(this.folder, 'log')
    const inject = `inject=write,writev:error=${errno}:when=${n}`
    const strace = await tamper(this.victim, ['-P', path, '-e', 'trace=write,writev', '-e', inject], log)
    req.end(bytes.subarray(BYTES / 2))
    const answered = await answer
    await strace.stop()
    // It may come in fewer pieces.
    const expected = !(await wasHit(log)) ? 200 : LATER.has(errno) ? 503 : 500
    await this.judge(what, answered, bytes, [expected])
    await this.stillThere(what)
  }

  async downloadWith(calls: string, errno: string, n: number): Promise<void> {
    this.faults++
    const what = `download, ${calls} ${n} ${errno}`
    const inject = `inject=${calls}:error=${errno}:when=${n}`
    const log = join(this.folder, 'log')
    const strace = await tamper(this.victim, ['-P', await this.path(), '-e', `trace=${calls}`, '-e', inject], log)
    const got = await this.send({})
      .then(async (response) => ({ status: response.status, bytes: Buffer.from(await response.arrayBuffer()) }))
      .catch(() => undefined)
    await strace.stop()
    const whole = got?.status === 200 && got.bytes.equals(this.content)
    // Behind the pieces a read only says that there is no more, which nobody has to know.
    if (got?.status === 200 && !(whole && (n > PIECES || !(await wasHit(log))))) {
      this.violations.push(`${what}: 200 with ${got.bytes.length} bytes`)
    } else if (got && got.status !== 200 && got.status !== (LATER.has(errno) ? 503 : 500)) {
      this.violations.push(`${what}: ${got.status}`)
    }
    await this.stillThere(what)
  }

  /** Bytes that cannot be taken away stay known, and do not keep others from going. */
  async collectWith(): Promise<void> {
    for (const call of ['unlink', 'fsync']) {
      this.faults++
      const stuck = await this.path()
      const id = stuck.slice(stuck.lastIndexOf('/') + 1)
      const held = call === 'fsync' ? stuck.slice(0, stuck.lastIndexOf('/')) : stuck
      const strace = await tamper(this.victim, ['-P', held, '-e', `trace=${call}`, '-e', `inject=${call}:error=EIO`])
      // One upload of many may go to the very folder.
      const expected = call === 'fsync' ? [200, 500] : [200]
      for (let i = 0; i < 3; i++) await this.upload(`replaced while ${call} fails`, () => expected)
      const dead = async () =>
        (
          await this.database.query<{ id: string }>(
            "select blob_id as id from svc_catalog.svc_blob where state = 'dead'",
          )
        ).rows
      await until('the others are taken away', async () => (await dead()).length === 1).catch(() =>
        this.violations.push(`${call} EIO: bytes that cannot be taken away keep others from going`),
      )
      if (!(await dead()).some((row) => row.id === id)) this.violations.push(`${call} EIO: forgotten all the same`)
      await strace.stop()
      await until('all of it is taken away', async () => (await dead()).length === 0)
    }
  }

  /** Somebody takes the bytes away by hand. */
  async lose(): Promise<void> {
    this.faults++
    await unlink(await this.path())
    const response = await this.send({})
    const { code } = (await response.json()) as { code?: string }
    if (response.status !== 500 || code !== 'fatal_internal_error') {
      this.violations.push(`bytes that are gone: ${response.status} ${code}`)
    }
    await this.upload('in place of lost bytes', () => [200])
  }

  /** @param expected the statuses that it may have */
  async upload(what: string, expected: () => readonly number[], size = BYTES): Promise<number> {
    const bytes = randomBytes(size)
    const response = await this.send({ method: 'PUT', body: bytes })
    return this.judge(what, response, bytes, expected())
  }

  private async judge(what: string, response: Response, bytes: Buffer, expected: readonly number[]): Promise<number> {
    this.faults++
    const { status, headers } = response
    const text = await response.text()
    if (status === 200) this.content = bytes
    if (!expected.includes(status)) this.violations.push(`${what}: answered ${status} ${text}`)
    if (status === 503 && !headers.has('retry-after')) this.violations.push(`${what}: 503 without Retry-After`)
    if (status === 503 && !text.includes('storage_unavailable')) this.violations.push(`${what}: ${text}`)
    if (status === 500 && !text.includes('fatal_internal_error')) this.violations.push(`${what}: ${text}`)
    return status
  }

  /** The file is the one that was acknowledged last, and another can be stored. */
  async stillThere(what: string): Promise<void> {
    const response = await this.send({})
    const bytes = Buffer.from(await response.arrayBuffer())
    const etag = `"${createHash('sha256').update(this.content).digest('hex')}"`
    if (!bytes.equals(this.content) || response.headers.get('etag') !== etag) {
      this.violations.push(`${what}: afterwards ${response.status} with ${bytes.length} other bytes`)
    }
  }

  private async path(): Promise<string> {
    const { rows } = await this.database.query<{ id: string }>(
      "select blob_id as id from svc_catalog.svc_file where file_id = 'f'",
    )
    const id = rows[0]?.id ?? ''
    return join(this.data, 'files', id.slice(-2), id)
  }

  private async blobs(): Promise<string[]> {
    const all = await readdir(join(this.data, 'files'), { recursive: true, withFileTypes: true })
    return all.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  }

  private send(init: RequestInit): Promise<Response> {
    return fetch(`${this.victim.url}/v1/file/f`, { ...init, headers: HEADERS, signal: limit() })
  }
}

/** A disk that is full after each number of writes, one without room for another name, and a read-only one. */
async function fillUp(disk: FaultyDisk): Promise<Faults> {
  const remount = (how: string) => spawnSync('mount', ['-o', `remount,${how}`, disk.data])
  for (let room = 0; room <= BYTES; room += WRITE_BYTES) {
    for (const bytes of [room, room + 4096]) {
      const { blocks, bfree, bsize } = await statfs(disk.data)
      remount(`size=${(blocks - bfree) * bsize + bytes}`)
      const status = await disk.upload(`room for ${bytes} bytes`, () => [bytes < BYTES ? 503 : 200])
      await disk.stillThere(`room for ${bytes} bytes`)
      if (status === 200) await disk.score()
    }
  }
  remount('size=64m')
  const { files, ffree } = await statfs(disk.data)
  remount(`nr_inodes=${files - ffree}`)
  await disk.upload('no room for a name', () => [503])
  remount('nr_inodes=10000')
  await disk.stillThere('no room for a name')
  remount('ro')
  await disk.upload('a disk that is read only', () => [503])
  await disk.stillThere('a disk that is read only')
  remount('rw')
  await disk.upload('a disk that is well again', () => [200])
  return disk.score()
}

/** The kernel may have dropped the bytes of an fsync that failed; another would say that all is well. */
function repeatedFsyncs(log: string): string[] {
  const failed = new Set<string>()
  const wrong: string[] = []
  for (const line of log.split('\n')) {
    const [, call = '', of = ''] = /^\d+ +(fsync|close)\((\d+<[^>]*>)/.exec(line) ?? []
    if (call === 'close') failed.delete(of)
    if (call === 'fsync' && failed.has(of)) wrong.push(`a failed fsync is repeated: ${line}`)
    if (call === 'fsync' && line.includes('= -1')) failed.add(of)
  }
  return wrong
}

async function withDisk<T>(mount: readonly string[], fn: (disk: FaultyDisk) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-trust-'))
  const data = join(folder, 'data')
  await mkdir(data)
  if (mount.length > 0) spawnSync('mount', [...mount, data])
  await writeConfig(folder)
  const { url, drop } = await freshDatabase()
  const database = new pg.Client({ connectionString: url })
  await database.connect()
  const victim = await startVictim(folder, url)
  try {
    const disk = new FaultyDisk(folder, victim, database)
    await disk.begin()
    return await fn(disk)
  } finally {
    victim.process.kill('SIGKILL')
    await victim.gone
    await database.end()
    await drop()
    if (mount.length > 0) spawnSync('umount', [data])
    await rm(folder, { recursive: true, force: true })
  }
}

function mayMount(): boolean {
  const { status } = spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt'])
  return status === 0
}

const limit = () => AbortSignal.timeout(GIVE_UP_MS)

const headersOf = ({ headers }: { headers: NodeJS.Dict<string | string[]> }): Headers =>
  new Headers(Object.entries(headers).map(([name, value]): [string, string] => [name, String(value)]))
