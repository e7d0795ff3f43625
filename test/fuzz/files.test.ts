import { createHash, randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { Agent, type IncomingHttpHeaders, request } from 'node:http'
import { buffer } from 'node:stream/consumers'
import tap from 'tap'
import fc, { cases } from '../kit/property.js'
import { ADMIN_SECRET, testServer } from '../kit/server.js'

const COUNT = cases(200, 'ROWHOUSE_FUZZ_REQUESTS')
const SEED = Number(process.env['ROWHOUSE_FUZZ_SEED'] ?? 1)
const AT_ONCE = 8
const ADMIN = { 'X-Service-Admin-Secret': ADMIN_SECRET, 'X-Service-User-Id': '1', 'Content-Type': 'a/b' }

/** One for all tests. */
let started: ReturnType<typeof start> | undefined

tap.test(`${COUNT} odd ids come back, and nothing leaves the folder (seed ${SEED})`, async (t) => {
  const { ask, dataDir } = await filestore()
  const ids = new Map(fc.sample(id, { seed: SEED, numRuns: COUNT }).map((each) => [each.id, each.path]))

  await each([...ids], async ([id, path]) => {
    const put = await ask('PUT', path, {}, `of ${id}`)
    const got = await ask('GET', path)
    const known = put.status === 200 && (JSON.parse(put.body.toString()) as { file_id: string }).file_id === id
    if (!known || got.body.toString() !== `of ${id}`) t.fail(`${JSON.stringify(id)} as ${path}: ${put.status}`)
  })

  const all = await readdir(dataDir, { recursive: true, withFileTypes: true })
  const names = all.map((entry) => `${entry.parentPath}/${entry.name}`.slice(dataDir.length))
  const folders = names.filter((name) => /^\/files(?:\/[\da-f]{2})?$/.test(name))
  const blobs = names.filter((name) => /^\/files\/([\da-f]{2})\/[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{10}\1$/.test(name))
  t.equal(folders.length, 257)
  t.equal(blobs.length, ids.size)
  const others = names.filter((name) => !folders.includes(name) && !blobs.includes(name))
  t.same(others.sort(), ['/uploads', '/uploads/place'].slice(0, others.length), 'and nothing else')
})

tap.test(`${COUNT} ranges and conditions get the right bytes or a right refusal (seed ${SEED})`, async (t) => {
  const { ask } = await filestore()
  const files = await Promise.all(
    [0, 1, 1000, 300_000].map(async (size) => {
      const bytes = randomBytes(size)
      await ask('PUT', `${size}`, {}, bytes)
      const { headers } = await ask('HEAD', `${size}`)
      return { bytes, etag: String(headers.etag), modified: String(headers['last-modified']) }
    }),
  )
  const seen = new Map<number, number>()

  await each(fc.sample(range, { seed: SEED, numRuns: COUNT }), async ({ file, first, last, mangle, conditions }) => {
    const { bytes, etag, modified } = files[file] as (typeof files)[number]
    const size = bytes.length
    const written = mangle(`bytes=${first(size)}-${last(size)}`)
    const headers = conditions({ etag, modified })
    const { status, body, headers: told } = await ask('GET', `${size}`, { Range: written, ...headers })
    seen.set(status, (seen.get(status) ?? 0) + 1)
    const wrong = judge(written, bytes, headers, { status, body, range: told['content-range'] }, etag)
    if (wrong !== undefined) t.fail(`${JSON.stringify({ size, written, ...headers })}: ${wrong}`)
  })

  for (const status of [200, 206, 304, 400, 412]) t.ok(seen.get(status), `${seen.get(status)} times ${status}`)
})

tap.test('50 clients replace and read one file: each answer is one whole version', async (t) => {
  const { ask } = await filestore()
  const written = new Set<string>()
  const hash = (bytes: Buffer) => `"${createHash('sha256').update(bytes).digest('hex')}"`
  const replace = async (n: number) => {
    const bytes = Buffer.alloc(30_000 + n, randomBytes(7))
    written.add(hash(bytes))
    const { status } = await ask('PUT', 'f', {}, bytes)
    if (status !== 200) t.fail(`replaced: ${status}`)
  }
  await replace(0)
  let read = 0

  await each(
    Array.from({ length: COUNT }, (_, n) => n),
    async (n) => {
      if (n % 5 === 0) return replace(n)
      const { status, body, headers } = await ask('GET', 'f')
      read++
      if (status !== 200 || headers.etag !== hash(body) || !written.has(hash(body))) {
        t.fail(`torn: ${status}, ${body.length} bytes`)
      }
    },
    50,
  )

  t.ok(read > 0, `${read} read`)
})

interface Got {
  readonly status: number
  readonly body: Buffer
  readonly headers: IncomingHttpHeaders
}

function filestore(): ReturnType<typeof start> {
  return (started ??= start())
}

/** A server with files, in a folder that is empty for the first test, and a client that sends paths as they are. */
async function start() {
  const dataDir = tap.testdir({})
  const storage = { default: 'disk', disk: { durability: 'process' } }
  const server = await testServer(tap, { files: true, config: { dataDir, providers: { storage } } })
  const agent = new Agent({ keepAlive: true })
  tap.teardown(() => agent.destroy())
  const ask = async (
    method: string,
    path: string,
    headers: Readonly<Record<string, string>> = {},
    body: Buffer | string = '',
  ): Promise<Got> => {
    const { hostname, port } = new URL(server.url)
    const all = { ...ADMIN, ...headers, 'Content-Length': Buffer.byteLength(body) }
    const req = request({ hostname, port, agent, method, path: `/v1/file/${path}`, headers: all })
    req.end(body)
    return new Promise((resolve, reject) => {
      req.on('error', reject).on('response', (res) => {
        buffer(res).then(
          (bytes) => resolve({ status: res.statusCode as number, headers: res.headers, body: bytes }),
          reject,
        )
      })
    })
  }
  return { ask, dataDir }
}

async function each<T>(all: readonly T[], fn: (one: T) => Promise<void>, atOnce = AT_ONCE): Promise<void> {
  const left = all.values()
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (const one of left) await fn(one)
    }),
  )
}

const PIECES = ['.', '..', '/', '\\', '%', '%2e', '%2F', ' ', '+', '?', '#', ':', '~', '-', 'con', 'nul', "'", '"', '*']
const isControl = (text: string): boolean => /\p{Cc}/u.test(text)

/** An id, and a path that says it: what needs to be encoded is, of the rest some. */
const id = fc
  .record({
    id: fc
      .array(fc.oneof(fc.constantFrom(...PIECES), fc.string({ unit: 'binary', maxLength: 6 })), {
        minLength: 1,
        maxLength: 12,
      })
      .map((pieces) => pieces.join(''))
      .filter((text) => text !== '' && !isControl(text)),
    encodeMore: fc.infiniteStream(fc.boolean()),
  })
  .map(({ id, encodeMore }) => {
    const hex = (byte: number, lower: boolean) => {
      const digits = byte.toString(16).padStart(2, '0')
      return `%${lower ? digits : digits.toUpperCase()}`
    }
    const path = [...Buffer.from(id)].map((byte) => {
      const plain = /[A-Za-z0-9._~!$&'()*+,;=:@-]/.test(String.fromCharCode(byte))
      const [more = true, lower = false] = [encodeMore.next().value, encodeMore.next().value]
      return plain && !more ? String.fromCharCode(byte) : hex(byte, lower)
    })
    return { id, path: path.join('') }
  })

type Of = (size: number) => string
const edge: fc.Arbitrary<Of> = fc.oneof(
  fc.constant<Of>(() => ''),
  fc.constantFrom<Of[]>(
    (size) => String(size),
    (size) => String(size - 1),
    (size) => String(size + 1),
    () => '9'.repeat(40),
  ),
  fc.nat(1200).map(
    (n): Of =>
      () =>
        String(n),
  ),
  fc.nat(1200).map(
    (n): Of =>
      () =>
        `00${n}`,
  ),
)
const mangles: readonly ((text: string) => string)[] = [
  (text) => text.replace('bytes', 'items'),
  (text) => text.replace('-', '--'),
  (text) => text.replace('=', ''),
  (text) => `${text},${text.slice(6)}`,
  (text) => `${text}, ,`,
  (text) => text.replace('-', ' - '),
  (text) => text.toUpperCase(),
  (text) => text.replace('=', '=x'),
  (text) => `${text}\u00e9`,
]

interface Version {
  readonly etag: string
  readonly modified: string
}
const OLD = 'Mon, 01 Jan 2001 00:00:00 GMT'
const conditions: readonly ((version: Version) => Readonly<Record<string, string>>)[] = [
  ({ etag }) => ({ 'If-Range': etag }),
  () => ({ 'If-Range': '"other"' }),
  ({ etag }) => ({ 'If-Range': `W/${etag}` }),
  ({ modified }) => ({ 'If-Range': modified }),
  ({ etag }) => ({ 'If-None-Match': etag }),
  () => ({ 'If-None-Match': '"other"' }),
  ({ etag }) => ({ 'If-Match': etag }),
  () => ({ 'If-Match': '"other"' }),
  ({ modified }) => ({ 'If-Modified-Since': modified }),
  () => ({ 'If-Unmodified-Since': OLD }),
]

const range = fc.record({
  file: fc.nat(3),
  first: edge,
  last: edge,
  mangle: fc.oneof(
    { weight: 3, arbitrary: fc.constant((text: string) => text) },
    { weight: 1, arbitrary: fc.constantFrom(...mangles) },
    { weight: 1, arbitrary: fc.stringMatching(/^[!-~]{1,20}$/).map((text) => () => text) },
  ),
  conditions: fc.oneof(
    { weight: 2, arbitrary: fc.constant(() => ({})) },
    { weight: 1, arbitrary: fc.constantFrom(...conditions) },
  ),
})

/** @returns what is wrong with an answer */
function judge(
  written: string,
  bytes: Buffer,
  conditions: Readonly<Record<string, string>>,
  { status, body, range }: { status: number; body: Buffer; range: string | undefined },
  etag: string,
): string | undefined {
  const { 'If-Range': ifRange } = conditions
  const wanted = expected(written, bytes.length)
  if (status === 200) {
    if (!body.equals(bytes)) return 'not all of it'
    if (isOfOtherUnit(written)) return undefined
    return ifRange === undefined || ifRange === etag ? '200 although a range was asked for' : undefined
  }
  if (status === 206) {
    const [, start, end, size] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(range ?? '') ?? []
    if (Number(size) !== bytes.length) return `Content-Range: ${range}`
    if (!body.equals(bytes.subarray(Number(start), Number(end) + 1))) return 'other bytes'
    return wanted === undefined || (wanted && wanted.start === Number(start) && wanted.end === Number(end))
      ? undefined
      : `206 with ${range}`
  }
  if (status === 304) return 'If-None-Match' in conditions || 'If-Modified-Since' in conditions ? undefined : '304'
  if (status === 412) return 'If-Match' in conditions || 'If-Unmodified-Since' in conditions ? undefined : '412'
  if (status === 400) return wanted || isOfOtherUnit(written) ? 'refused' : undefined
  return `status ${status}`
}

/** Whether a range is to be ignored. */
function isOfOtherUnit(written: string): boolean {
  const [unit = '', ...rest] = written.split('=')
  return /^[-\w!#$%&'*+.^`|~]+$/.test(unit) && unit.toLowerCase() !== 'bytes' && rest.join('=') !== ''
}

/** Of a plain range: its bytes, or false when there are none. Undefined: it is not plain. */
function expected(written: string, size: number): { start: number; end: number } | false | undefined {
  const [, first, last] = /^bytes=(\d*)-(\d*)$/.exec(written) ?? []
  if (first === undefined || last === undefined) return undefined
  const most = BigInt(size)
  if (first === '') {
    if (last === '' || BigInt(last) === 0n || most === 0n) return false
    return { start: BigInt(last) >= most ? 0 : size - Number(last), end: size - 1 }
  }
  if (BigInt(first) >= most || (last !== '' && BigInt(last) < BigInt(first))) return false
  return { start: Number(first), end: last === '' || BigInt(last) >= most ? size - 1 : Number(last) }
}
