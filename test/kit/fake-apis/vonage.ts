import { createHmac, randomBytes } from 'node:crypto'
import { type Answer, type Asked, type FaultyServer, faultyServer } from './faulty-server.js'

/** The basic character table of GSM 03.38, row by row, and what its extension table adds. */
const GSM = [
  '@£$¥èéùìòÇ\nØø\rÅå',
  'Δ_ΦΓΛΩΠΨΣΘΞ\u001bÆæßÉ',
  ' !"#¤%&\'()*+,-./',
  '0123456789:;<=>?',
  '¡ABCDEFGHIJKLMNO',
  'PQRSTUVWXYZÄÖÑÜ§',
  '¿abcdefghijklmno',
  'pqrstuvwxyzäöñüà',
]
const EXTENSION = '\f^{}\\[~]|€'
/** Each letter that a message of the type `text` can hold. */
export const ALPHABET = GSM.join('').replace('\u001b', '') + EXTENSION

/** A message as the phone shows it. */
export interface Shown {
  readonly id: string
  readonly to: string
  readonly from: string
  readonly text: string
  readonly parts: number
  readonly reference: string
}

export interface FakeVonage extends FaultyServer {
  readonly shown: readonly Shown[]
}

/** The SMS API of Vonage: takes what its reference says it takes, and nothing else. */
export async function fakeVonage(
  t: Parameters<typeof faultyServer>[0],
  account: { readonly apiKey: string; readonly apiSecret: string },
): Promise<FakeVonage> {
  const shown: Shown[] = []
  const basic = `Basic ${Buffer.from(`${account.apiKey}:${account.apiSecret}`).toString('base64')}`
  const server = await faultyServer(t, (asked) => {
    if (asked.method !== 'POST' || asked.url.pathname !== '/sms/json' || asked.url.search !== '') {
      return { status: 404, body: '{"title": "Not Found"}' }
    }
    if (asked.headers['authorization'] !== basic) return failed('4', 'Bad Credentials')
    const fields = fieldsOf(asked)
    const wrong = problem(fields)
    if (wrong !== undefined) return failed('3', wrong)
    const message = received(fields!)
    shown.push(message)
    return taken(message)
  })
  return Object.assign(server, { shown })
}

/** What Vonage answers for one message that it did not take. */
export const failed = (status: string, text: string): Answer => ({
  status: 200,
  body: JSON.stringify({ 'message-count': '1', messages: [{ status, 'error-text': text }] }),
})

function fieldsOf({ headers, body }: Asked): Record<string, unknown> | undefined {
  if (headers['content-type'] !== 'application/json') return undefined
  return JSON.parse(body) as Record<string, unknown>
}

function problem(fields: Record<string, unknown> | undefined): string | undefined {
  if (fields === undefined) return 'Not JSON'
  const names = Object.keys(fields).toSorted().join(' ')
  if (names !== 'client-ref from text to type') return `Invalid fields: ${names}`
  if (!Object.values(fields).every((value) => typeof value === 'string' && value !== '')) return 'Missing value'
  if (!/^[1-9]\d{6,14}$/.test(String(fields['to']))) return 'Invalid "to"'
  if (!['text', 'unicode'].includes(String(fields['type']))) return 'Invalid "type"'
  if (String(fields['client-ref']).length > 40) return 'Invalid "client-ref"'
  return undefined
}

function received(fields: Record<string, unknown>): Shown {
  const text = String(fields['text'])
  const unicode = fields['type'] === 'unicode'
  const letters = Array.from(text)
  const size = unicode ? text.length : letters.reduce((sum, one) => sum + (EXTENSION.includes(one) ? 2 : 1), 0)
  const [alone, each] = unicode ? [70, 67] : [160, 153]
  return {
    id: randomBytes(8).toString('hex').toUpperCase(),
    to: String(fields['to']),
    from: String(fields['from']),
    text: unicode ? text : letters.map((one) => (ALPHABET.includes(one) ? one : '?')).join(''),
    parts: size <= alone ? 1 : Math.ceil(size / each),
    reference: String(fields['client-ref']),
  }
}

function taken({ id, to, parts, reference }: Shown): Answer {
  const messages = Array.from({ length: parts }, (_, index) => ({
    to,
    'message-id': index === 0 ? id : `${id}${index}`,
    status: '0',
    'remaining-balance': '3.14159265',
    'message-price': '0.03330000',
    network: '12345',
    'client-ref': reference,
  }))
  return { status: 200, body: JSON.stringify({ 'message-count': String(parts), messages }) }
}

/** A delivery receipt as Vonage posts it, signed. */
export function signedReceipt(
  fields: Readonly<Record<string, string>>,
  secret: string,
  method: 'sha256' | 'sha512' = 'sha256',
): Record<string, string> {
  let text = ''
  for (const [name, value] of Object.entries(fields).toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    text += `&${name}=${value.split('&').join('_').split('=').join('_')}`
  }
  return { ...fields, sig: createHmac(method, secret).update(text, 'utf8').digest('hex').toUpperCase() }
}
