import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { ADMIN_SECRET, endKeptConnections } from '../../kit/server.js'
import { until } from '../../kit/until.js'
import { ask } from '../notify/clients.js'
import type { Part, PartOptions, Score } from '../part.js'
import { randomFrom } from '../random.js'
import { PATRONI, query, type Rig, startRig, whyNoRig } from './rig.js'

/** That three servers on a PostgreSQL with failover lose and invent nothing, whatever part of the cluster fails. */
export const cluster: Part = {
  about: 'three servers on PostgreSQL with Patroni while each part of the cluster fails (needs root, Debian packages)',
  run,
}

const WRITERS = 4
const READERS = 4
const UPLOADERS = 2
/** The longest break between two requests of a client. */
const BREAK_MS = 100
const METADATA_EVERY_MS = 1000
/** Between two looks at a server that does not know a change yet: more of them would slow it down. */
const POLL_MS = 25
const QUIET_MS = 8000
/** Time that a killed machine is gone. */
const GONE_MS = 8000
const READ_ROWS = 50
const MAX_LAG_MS = 5000
const PIECES = 5
const PIECE_BYTES = 100_000
/** The longest time from a piece to the next. */
const PIECE_MS = 2000
/** What takes longer never ends. */
const NEVER_MS = 180_000

interface Event {
  readonly name: string
  run(rig: Rig): Promise<void>
}

const EVENTS: readonly Event[] = [
  { name: 'nothing', run: () => sleep(QUIET_MS) },
  {
    name: 'kill -9 a server of Rowhouse',
    async run({ rowhouse: [one] }) {
      await one!.kill()
      await sleep(GONE_MS)
      await one!.start()
    },
  },
  {
    name: 'kill -9 the synchronous standby',
    async run(rig) {
      const { standby } = await rig.roles()
      await standby.kill()
      await sleep(GONE_MS)
      await standby.start()
    },
  },
  {
    name: 'kill -9 the primary',
    async run(rig) {
      const { primary } = await rig.roles()
      await primary.kill()
      await rig.anotherThan(primary)
      await sleep(GONE_MS)
      await primary.start()
    },
  },
  { name: 'switchover', run: (rig) => rig.switchOver() },
  {
    name: 'cut the network of the primary',
    async run(rig) {
      const { primary } = await rig.roles()
      primary.cut()
      await rig.anotherThan(primary).finally(primary.mend)
      await sleep(GONE_MS)
    },
  },
  {
    name: 'restart all servers of Rowhouse in turn',
    async run({ rowhouse }) {
      for (const each of rowhouse) await each.restart()
    },
  },
  {
    name: 'kill -9 the leader of etcd',
    async run(rig) {
      const leader = await rig.etcdLeader()
      await leader.kill()
      await sleep(GONE_MS)
      await leader.start()
    },
  },
]

async function run({ minutes, seed, only, progress }: PartOptions): Promise<Score> {
  const events = EVENTS.filter(({ name }) => only.test(name))
  if (events.length === 0) throw new Error(`nothing has a name like ${only.source}`)
  const why = await whyNoRig()
  if (why !== undefined) return { done: 'NOT RUN', violations: [why], figures: [] }
  const rig = await startRig(progress)
  const interrupted = () => void rig.stop().finally(() => process.exit(130))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, interrupted)
  try {
    return await underLoad(rig, events, { minutes, seed, progress })
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, interrupted)
    endKeptConnections()
    await rig.stop()
  }
}

type Options = Pick<PartOptions, 'minutes' | 'seed' | 'progress'>

async function underLoad(rig: Rig, events: readonly Event[], { minutes, seed, progress }: Options): Promise<Score> {
  await prepare(rig)
  const load = new Load(rig, randomFrom(seed))
  const spans: Span[] = []
  const end = performance.now() + minutes * 60_000
  const running = load.run()
  try {
    // Each event at least once.
    for (let n = 0; n < events.length || performance.now() < end; n++) {
      const { name, run } = events[n % events.length]!
      await sleep(QUIET_MS)
      const from = performance.now()
      await run(rig)
      await rig.whole()
      await sleep(QUIET_MS)
      const span = { name, from, to: performance.now() }
      spans.push(span)
      progress(`${name}: ${rowOf(span, load).slice(1).join(', ')}; ${load.failures(span)}`)
    }
  } finally {
    load.over = true
    await running
  }
  const violations = [...load.violations, ...(await load.check())]
  const { acknowledged, uploads, requests, convergence, lagMs } = load
  return {
    done: `${spans.length} events, ${requests.length} requests, ${acknowledged} acknowledged writes, ${uploads.length} resumable uploads, ${convergence.length} changes of metadata`,
    violations,
    figures: [
      `metadata at all servers: ${describeTimes(convergence.map(({ ms }) => ms))}`,
      `reads without a position: at most ${Math.round(lagMs)} ms old`,
      `Patroni: ${Object.entries(PATRONI)
        .map((each) => each.join(' '))
        .join(', ')}, synchronous_mode`,
    ],
    table: tableOf(spans, load),
  }
}

/** From the start of an event until all was well again for a while. Times are those of `performance`. */
interface Span {
  readonly name: string
  readonly from: number
  readonly to: number
}

interface Request {
  readonly kind: 'write' | 'read'
  readonly sent: number
  readonly answered: number
  /** Absent: it was answered well. */
  readonly failure?: string
}

interface Upload {
  readonly id: string
  readonly from: number
  readonly to: number
  readonly sha256: string
  /** Pieces that another server got than the one before. */
  readonly moves: number
  readonly failures: number
}

/** What a writer sent, and what it was told. */
class Writer {
  tried = 0
  /** In order. */
  readonly acknowledged: { readonly seq: number; readonly at: number; readonly position: string }[] = []
}

/** Clients of all kinds, what they were told, and what they must then see. */
class Load {
  over = false
  readonly violations: string[] = []
  readonly requests: Request[] = []
  readonly uploads: Upload[] = []
  readonly convergence: { readonly at: number; readonly ms: number }[] = []
  /** The oldest that a read without a position was. */
  lagMs = 0
  private readonly writers = Array.from({ length: WRITERS }, () => new Writer())
  private readonly rig: Rig
  private readonly random: () => number

  constructor(rig: Rig, random: () => number) {
    this.rig = rig
    this.random = random
  }

  get acknowledged(): number {
    return this.writers.reduce((sum, { acknowledged }) => sum + acknowledged.length, 0)
  }

  async run(): Promise<void> {
    const clients = [
      ...this.writers.map((writer, i) => this.again(() => this.write(writer, i))),
      ...Array.from({ length: READERS }, (_, i) => this.again((n) => this.read(n % 2 === 0, `reader ${i}`))),
      ...Array.from({ length: UPLOADERS }, (_, i) => this.again((n) => this.upload(`upload-${i}-${n}`))),
      this.again((n) => this.changeMetadata(n)),
    ]
    await Promise.all(clients)
  }

  private async again(fn: (n: number) => Promise<void>): Promise<void> {
    for (let n = 1; !this.over; n++) {
      await fn(n).catch((error) => this.violations.push(String(error)))
      await sleep(this.random() * BREAK_MS)
    }
  }

  private async send(kind: Request['kind'], args: object, headers: Record<string, string>) {
    const sent = performance.now()
    const type = kind === 'write' ? 'insert' : 'select'
    const answer = await ask(`${this.rig.url}/v1/query`, { type, args }, { 'X-Service-Role': 'clerk', ...headers })
    const failure = answer === undefined ? 'no answer' : `${answer.status} ${answer.body?.code ?? ''}`
    const request = { kind, sent, answered: performance.now() }
    if (answer?.status === 200) this.requests.push(request)
    else this.requests.push({ ...request, failure })
    if (answer && answer.status !== 200 && ![429, 503, 504].includes(answer.status))
      this.violations.push(`${kind}: answered ${answer.status} ${JSON.stringify(answer.body)}`)
    return { answer: answer?.status === 200 ? answer : undefined, sent }
  }

  private async write(writer: Writer, n: number): Promise<void> {
    const seq = ++writer.tried
    const objects = [{ writer: n, seq, text: textOf(n, seq) }]
    const { answer } = await this.send('write', { table: 'entry', objects }, { 'X-Service-User-Id': String(n) })
    if (!answer) return
    const position = answer.headers.get('rowhouse-position')
    if (position === null) this.violations.push('write: without Rowhouse-Position')
    else writer.acknowledged.push({ seq, at: performance.now(), position })
  }

  /** The newest rows of a writer: none that was acknowledged may be missing, but for the lag that is allowed. */
  private async read(withPosition: boolean, user: string): Promise<void> {
    const n = Math.floor(this.random() * WRITERS)
    const writer = this.writers[n] as Writer
    const last = writer.acknowledged.at(-1)
    const headers: Record<string, string> = { 'X-Service-User-Id': String(100 + user.charCodeAt(user.length - 1)) }
    if (withPosition && last) headers['Rowhouse-Position'] = last.position
    const args = {
      table: 'entry',
      columns: ['seq', 'text'],
      where: { writer: n },
      order_by: ['-seq'],
      limit: READ_ROWS,
    }
    const { answer, sent } = await this.send('read', args, headers)
    if (!answer) return
    const rows = answer.body as { readonly seq: number; readonly text: string }[]
    const seen = new Set(rows.map(({ seq }) => seq))
    const from = rows.length < READ_ROWS ? 0 : (rows.at(-1)?.seq ?? 0)
    for (const { seq, text } of rows) {
      if (text !== textOf(n, seq) || seq > writer.tried) this.violations.push(`read: row ${n}/${seq} is wrong: ${text}`)
    }
    const missing = writer.acknowledged.find(({ seq, at }) => at <= sent && seq >= from && !seen.has(seq))
    if (!missing) return
    const age = sent - missing.at
    if (withPosition && last)
      this.violations.push(`read after ${last.position}: row ${n}/${missing.seq} is missing, ${Math.round(age)} ms old`)
    else if (age > MAX_LAG_MS)
      this.violations.push(`read: row ${n}/${missing.seq} is missing, ${Math.round(age)} ms old`)
    else this.lagMs = Math.max(this.lagMs, age)
  }

  /** Each piece goes to the next server, past those in front. */
  private async upload(id: string): Promise<void> {
    const bytes = randomBytes(PIECES * PIECE_BYTES)
    const from = performance.now()
    const { rowhouse } = this.rig
    let place: string | undefined
    let [offset, moves, failures, served] = [0, 0, 0, -1]
    for (let turn = 0; offset < bytes.length; turn++) {
      if (performance.now() - from > NEVER_MS) {
        this.violations.push(`upload ${id}: does not end, at ${offset}`)
        return
      }
      const at = turn % rowhouse.length
      const server = rowhouse[at]!
      try {
        if (place === undefined) {
          const name = Buffer.from(id).toString('base64')
          const made = await tus(server.url + '/v1/upload', 'POST', {
            'Upload-Length': String(bytes.length),
            'Upload-Metadata': `file_id ${name},replace ${Buffer.from('true').toString('base64')}`,
          })
          place = new URL(made.headers.get('location') as string, server.url).pathname
        } else {
          const head = await tus(server.url + place, 'HEAD')
          offset = Number(head.headers.get('upload-offset'))
          const piece = bytes.subarray(offset, offset + PIECE_BYTES)
          const said = await tus(
            server.url + place,
            'PATCH',
            { 'Upload-Offset': String(offset), 'Content-Type': 'application/offset+octet-stream' },
            piece,
          )
          offset = Number(said.headers.get('upload-offset'))
        }
        if (served !== -1 && served !== at) moves++
        served = at
      } catch {
        failures++
      }
      await sleep(this.random() * PIECE_MS)
    }
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    this.uploads.push({ id, from, to: performance.now(), sha256, moves, failures })
  }

  /** Changes what a role may see at one server, and waits until all that run know it. */
  private async changeMetadata(n: number): Promise<void> {
    const servers = this.rig.rowhouse
    const began = performance.now()
    const allowed = { table: 'marker', role: 'observer' }
    const permission = { columns: ['id'], filter: { id: n } }
    const args = [
      { type: 'drop_select_permission', args: allowed },
      { type: 'create_select_permission', args: { ...allowed, permission } },
    ]
    const answer = await ask(`${servers[n % servers.length]!.url}/v1/query`, { type: 'bulk', args })
    if (answer?.status === 200) {
      const at = performance.now()
      const times = await Promise.all(servers.map((server) => this.converged(server, n, at)))
      if (times.includes(Infinity)) this.violations.push(`metadata ${n}: never reached all servers`)
      else this.convergence.push({ at, ms: Math.max(...times) })
    } else if (answer && ![429, 503, 504].includes(answer.status)) {
      this.violations.push(`metadata: answered ${answer.status} ${JSON.stringify(answer.body)}`)
    }
    await sleep(Math.max(0, METADATA_EVERY_MS - (performance.now() - began)))
  }

  private async converged(server: Rig['rowhouse'][number], n: number, at: number): Promise<number> {
    const args = { table: 'marker', columns: ['id'], limit: 2 }
    while (performance.now() - at < NEVER_MS) {
      if (!server.isUp()) return 0
      const asked = performance.now()
      const answer = await ask(`${server.url}/v1/query`, { type: 'select', args }, { 'X-Service-Role': 'observer' })
      if (answer?.status === 200 && answer.body[0]?.id === n) return asked - at
      await sleep(POLL_MS)
    }
    return Infinity
  }

  /** How many of each kind. */
  failures(span: Span): string {
    const counts = new Map<string, number>()
    for (const { kind, failure } of this.requests.filter(({ sent }) => sent >= span.from && sent < span.to))
      if (failure !== undefined) counts.set(`${kind} ${failure}`, (counts.get(`${kind} ${failure}`) ?? 0) + 1)
    return [...counts].map(([what, count]) => `${count} ${what}`).join(', ')
  }

  /** @returns what is not as it was told */
  async check(): Promise<string[]> {
    const { primary } = await this.rig.roles()
    const found: string[] = []
    const rows = await query<{ writer: number; seq: number; text: string }>(
      primary.url,
      'select writer, seq, text from entry',
    )
    for (const [n, writer] of this.writers.entries()) {
      const own = rows.filter((row) => row.writer === n)
      const seen = new Set(own.map(({ seq }) => seq))
      for (const { seq } of writer.acknowledged) if (!seen.has(seq)) found.push(`row ${n}/${seq}: lost`)
      for (const { seq, text } of own)
        if (seq > writer.tried || text !== textOf(n, seq)) found.push(`row ${n}/${seq}: nobody wrote it`)
    }
    for (const { id, sha256 } of this.uploads) {
      const response = await fetch(`${this.rig.url}/v1/file/${id}`, { headers: HEADERS })
      const is = createHash('sha256')
        .update(Buffer.from(await response.arrayBuffer()))
        .digest('hex')
      if (is !== sha256) found.push(`upload ${id}: has other bytes, status ${response.status}`)
    }
    return found
  }
}

const HEADERS = { 'X-Service-Admin-Secret': ADMIN_SECRET, 'X-Service-User-Id': '1' }

async function tus(
  url: string,
  method: string,
  headers: Record<string, string> = {},
  body?: Buffer,
): Promise<Response> {
  const response = await fetch(url, {
    method,
    headers: { ...HEADERS, 'Tus-Resumable': '1.0.0', ...headers },
    body: body as unknown as string,
    signal: AbortSignal.timeout(10_000),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${response.status} ${text}`)
  return response
}

const textOf = (writer: number, seq: number): string => createHash('sha256').update(`${writer} ${seq}`).digest('hex')

async function prepare({ url, rowhouse }: Rig): Promise<void> {
  const must = async (type: string, args: unknown) => {
    const answer = await ask(`${url}/v1/query`, { type, args })
    if (answer?.status !== 200) throw new Error(`${type}: ${JSON.stringify(answer)}`)
  }
  await must('run_sql', {
    sql: `create table entry (writer int, seq int, text text not null, primary key (writer, seq));
      create table marker (id int primary key); insert into marker select generate_series(0, 100000)`,
  })
  for (const table of ['entry', 'marker']) await must('track_table', table)
  await must('create_insert_permission', { table: 'entry', role: 'clerk', permission: { check: {}, columns: '*' } })
  await must('create_select_permission', { table: 'entry', role: 'clerk', permission: { filter: {}, columns: '*' } })
  await must('create_select_permission', {
    table: 'marker',
    role: 'observer',
    permission: { filter: { id: 0 }, columns: ['id'] },
  })
  const knows = async (server: string) => {
    const args = { table: 'marker', columns: ['id'], limit: 1 }
    const answer = await ask(`${server}/v1/query`, { type: 'select', args }, { 'X-Service-Role': 'observer' })
    return answer?.status === 200 && answer.body.length === 1
  }
  for (const server of rowhouse) await until('all servers know the permissions', () => knows(server.url))
}

const HEAD = [
  'event',
  'writes failed',
  'reads failed',
  'longest time without a good write, s',
  'without a good read, s',
  'metadata at all servers, ms',
  'uploads completed, of them interrupted',
]

function rowOf(span: Span, { requests, convergence, uploads }: Load): string[] {
  const within = requests.filter(({ sent }) => sent >= span.from && sent < span.to)
  const failed = (kind: Request['kind']) => {
    const all = within.filter((each) => each.kind === kind)
    return `${all.filter(({ failure }) => failure !== undefined).length} of ${all.length}`
  }
  const gap = (kind: Request['kind']) => {
    const good = within
      .filter((each) => each.kind === kind && each.failure === undefined)
      .map(({ answered }) => answered)
    const times = [span.from, ...good.toSorted((a, b) => a - b)]
    return (Math.max(...times.slice(1).map((time, i) => time - times[i]!)) / 1000).toFixed(1)
  }
  const times = convergence.filter(({ at }) => at >= span.from && at < span.to).map(({ ms }) => ms)
  const completed = uploads.filter(({ from, to }) => from < span.to && to >= span.from)
  const interrupted = completed.filter(({ failures }) => failures > 0)
  return [
    span.name,
    failed('write'),
    failed('read'),
    gap('write'),
    gap('read'),
    describeTimes(times),
    `${completed.length}, ${interrupted.length}`,
  ]
}

const tableOf = (spans: readonly Span[], load: Load): string =>
  [HEAD, HEAD.map(() => '---'), ...spans.map((span) => rowOf(span, load))]
    .map((row) => `| ${row.join(' | ')} |`)
    .join('\n')

function describeTimes(times: readonly number[]): string {
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number) => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0)
  return sorted.length === 0 ? 'none' : `p50 ${at(0.5)}, p99 ${at(0.99)}, at most ${at(1)} of ${sorted.length}`
}
