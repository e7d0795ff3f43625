import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { randomFrom } from '../random.js'

/** What a sender was answered, or what happened in place of an answer. */
export type Deed = keyof typeof SHARES | 'taken' | 'refused'

/** One request to send a message. */
export interface Asked {
  /** Which of the sender's providers it is for. */
  readonly account: string
  /** Of the message. */
  readonly id: string
  readonly sub: string
  /** Who asked. */
  readonly server: string
  /** When all of it was here, in milliseconds since 1970. */
  readonly at: number
  readonly deed: Deed
  /** Under which name the message was accepted; absent: it was not. */
  readonly ref?: string
  /** It was accepted now; else it had been before. */
  readonly effect: boolean
  /** An answer that says whether it was accepted has left. */
  answered: boolean
}

/** In percent; the rest is as it should be. */
const SHARES = {
  error: 5,
  reset: 3,
  'accepted, then reset': 3,
  'accepted, then half an answer': 2,
  silence: 1.5,
  'accepted, then silence': 1.5,
  'too many': 1,
  busy: 1,
  'bad gateway': 1,
  'accepted, then bad gateway': 1,
} as const
/** Longer than the senders wait, but for one that has to be caught waiting. */
const SILENCE_MS = 2500
/** The longest time that an ordinary answer takes. */
const WORK_MS = 25

/**
 * `node fake-provider.js <seed>`: accepts messages, and misbehaves at one request in five. Prints its URL, and ends with
 * its standard input. A message with an `idempotency-key` has its effect once, in each account.
 */
const random = randomFrom(Number(process.argv[2]))
const asked: Asked[] = []
const known = new Map<string, string>()

const server = createServer((req, res) => {
  if (req.method === 'GET') res.end(JSON.stringify(asked))
  else send(req, res).catch(() => res.destroy())
})
server.keepAliveTimeout = 60_000
await once(server.listen(0, '127.0.0.1'), 'listening')
process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`)
process.stdin.once('end', () => process.exit()).resume()

async function send(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const { id, sub, to } = (await json(req)) as { readonly id: string; readonly sub: string; readonly to: string }
  const account = String(req.headers['x-account'])
  const deed = choose(to)
  const accepts = deed.startsWith('accepted') || deed === 'taken'
  const key = req.headers['idempotency-key']
  const before = key === undefined ? undefined : known.get(`${account} ${String(key)}`)
  const ref = before ?? (accepts ? `${account}-${asked.length}` : undefined)
  const entry: Asked = {
    account,
    id,
    sub,
    server: String(req.headers['x-server']),
    at: Date.now(),
    deed,
    ...(ref === undefined ? {} : { ref }),
    effect: accepts && before === undefined,
    answered: false,
  }
  asked.push(entry)
  if (key !== undefined && ref !== undefined) known.set(`${account} ${String(key)}`, ref)
  await sleep(random() * WORK_MS)
  await answer(res, deed, ref ?? '', () => (entry.answered = true))
}

function choose(to: string): Deed {
  let left = random() * 100
  for (const [deed, share] of Object.entries(SHARES)) {
    left -= share
    if (left < 0) return deed as Deed
  }
  return to.startsWith('refused') ? 'refused' : 'taken'
}

async function answer(res: ServerResponse, deed: Deed, ref: string, answered: () => void): Promise<void> {
  const body = JSON.stringify({ ref })
  const say = (status: number, headers: Readonly<Record<string, string>> = {}) => {
    if (status !== 502) res.once('finish', answered)
    res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(status === 200 ? body : '{}')
  }
  switch (deed) {
    case 'taken':
      return say(200)
    case 'refused':
      return say(422)
    case 'error':
      return say(500)
    case 'too many':
      return say(429, { 'retry-after': '1' })
    case 'busy':
      return say(503)
    case 'bad gateway':
    case 'accepted, then bad gateway':
      return say(502)
    case 'silence':
      await sleep(SILENCE_MS)
      return say(500)
    case 'accepted, then silence':
      await sleep(SILENCE_MS)
      return say(200)
    case 'accepted, then half an answer':
      res.writeHead(200, { 'content-length': String(body.length) }).write(body.slice(0, 4), () => reset(res))
      return undefined
    case 'reset':
    case 'accepted, then reset':
      return reset(res)
  }
}

const reset = ({ socket }: ServerResponse): void => void socket?.resetAndDestroy()
