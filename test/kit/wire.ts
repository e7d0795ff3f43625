import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A message between a server and its PostgreSQL. */
export interface WireEvent {
  /** `application_name` and a number, such as `rowhouse main 2`. */
  readonly connection: string
  /** Of messages to PostgreSQL all, of its own `ready` (ReadyForQuery) alone. */
  readonly kind: Kind
  /** The SQL of a `parse` or `query`; of a `bind` that of the statement it runs; else empty. */
  readonly sql: string
}
type Kind = 'parse' | 'bind' | 'describe' | 'execute' | 'sync' | 'query' | 'close' | 'flush' | 'other' | 'ready'

export interface Wire {
  /** The target's URL, by way of this. */
  readonly url: string
  /** Everything so far, in order. */
  readonly events: readonly WireEvent[]
}

const KINDS: ReadonlyMap<string, Kind> = new Map([
  ['P', 'parse'],
  ['B', 'bind'],
  ['D', 'describe'],
  ['E', 'execute'],
  ['S', 'sync'],
  ['Q', 'query'],
  ['C', 'close'],
  ['H', 'flush'],
])

/** Stands between a server and its PostgreSQL, and notes what is asked on which connection, and when that is over. */
export async function startWire(t: { teardown(fn: () => Promise<void>): unknown }, target: string): Promise<Wire> {
  const { hostname, port } = new URL(target)
  const events: WireEvent[] = []
  const sockets = new Set<Socket>()
  let opened = 0
  const server = createServer((client) => {
    const upstream = connect({ host: hostname, port: Number(port) })
    const statements = new Map<string, string>()
    const number = ++opened
    let connection = ''
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => socket.destroy()).on('close', () => (client.destroy(), upstream.destroy()))
    }
    const note = (kind: Kind, sql = '') => events.push({ connection, kind, sql })
    const asked = messages(false, (type, body) => {
      if (type === '') {
        connection = `${/application_name\0([^\0]*)/.exec(body.toString())?.[1] ?? ''} ${number}`
        return
      }
      const [first = '', second = ''] = body.toString('utf8').split('\0', 2)
      if (type === 'P') statements.set(first, second)
      if (type === 'P') note('parse', second)
      else if (type === 'Q') note('query', first)
      else if (type === 'B') note('bind', statements.get(second))
      else note(KINDS.get(type) ?? 'other')
    })
    const told = messages(true, (type) => {
      if (type === 'Z') note('ready')
    })
    client.on('data', (chunk: Buffer) => (asked(chunk), upstream.write(chunk)))
    upstream.on('data', (chunk: Buffer) => (told(chunk), client.write(chunk)))
    client.on('end', () => upstream.end())
    upstream.on('end', () => client.end())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise<void>((resolve) => server.close(() => resolve()))
  })
  const url = new URL(target)
  url.hostname = '127.0.0.1'
  url.port = String((server.address() as AddressInfo).port)
  return { url: url.href, events }
}

/** Cuts a stream into messages: a letter and a length, but for the first of a client, which has no letter. */
export function messages(begun: boolean, each: (type: string, body: Buffer) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    for (;;) {
      const head = begun ? 1 : 0
      if (rest.length < head + 4) return
      const end = head + rest.readInt32BE(head)
      if (rest.length < end) return
      each(begun ? String.fromCharCode(rest[0] as number) : '', rest.subarray(head + 4, end))
      rest = rest.subarray(end)
      begun = true
    }
  }
}
