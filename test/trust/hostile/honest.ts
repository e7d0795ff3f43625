import { Agent, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Honest clients, a process of their own: forms that the server knows at a steady rate, and now and then a new one. Over
 * IPC it takes `Setting`, then answers every `read` with what has happened since the last one.
 */
export interface Setting {
  readonly url: string
  /** Of the role `customer`, user 7. */
  readonly authorization: string
}
export interface Honest {
  /** Milliseconds from the time that a request was due to the end of its answer. */
  readonly known: readonly number[]
  /** The same of those that had to be compiled. */
  readonly novel: readonly number[]
  readonly failures: readonly string[]
}

const KNOWN_EVERY_MS = 20
const NOVEL_EVERY_MS = 500
const DEADLINE_MS = 60_000

const agent = new Agent({ keepAlive: true, maxSockets: 64 })
let known: number[] = []
let novel: number[] = []
let failures: string[] = []

process.on('disconnect', () => process.exit())
process.once('message', (setting: Setting) => {
  process.on('message', () => {
    process.send?.({ known, novel, failures } satisfies Honest)
    known = []
    novel = []
    failures = []
  })
  void keepAsking(KNOWN_EVERY_MS, (n, due) => ask(setting, KNOWN[n % KNOWN.length]!(n), due, known))
  void keepAsking(NOVEL_EVERY_MS, (n, due) => ask(setting, NOVEL[n % NOVEL.length]!(n), due, novel))
})

interface Question {
  readonly path: string
  readonly body: object
  readonly answer: RegExp
}

const KNOWN: readonly ((n: number) => Question)[] = [
  (n) => ({
    path: '/v1/query',
    body: { type: 'select', args: { table: 'product', columns: ['id', 'name'], where: { id: 1 + (n % 200) } } },
    answer: /^\[\{"id":\d+,"name":".+"\}\]$/,
  }),
  (n) => ({
    path: '/v1/graphql',
    body: { query: 'query ($id: Int!) { product_by_pk(id: $id) { id name } }', variables: { id: 1 + (n % 200) } },
    answer: /^\{"data":\{"product_by_pk":\{"id":\d+,"name":".+"\}\}\}$/,
  }),
]
const NOVEL: readonly ((n: number) => Question)[] = [
  (n) => ({
    path: '/v1/query',
    body: {
      type: 'select',
      args: {
        table: 'product',
        columns: ['id', { name: 'reviews', columns: ['id'], limit: 1 }],
        where: { $or: Array.from({ length: 1 + n }, () => ({ id: 1 })) },
      },
    },
    answer: /^\[\{"id":1,"reviews":\[.*\]\}\]$/,
  }),
  (n) => ({
    path: '/v1/graphql',
    body: { query: `{ product_by_pk(id: 1) { id a${n}: name } }` },
    answer: /^\{"data":\{"product_by_pk":\{"id":1,"a\d+":".+"\}\}\}$/,
  }),
]

/** Does not wait for answers: whoever comes late because another one does is counted from when it was due. */
async function keepAsking(everyMs: number, fn: (n: number, due: number) => Promise<void>): Promise<void> {
  const start = performance.now()
  for (let n = 0; ; n++) {
    const due = start + n * everyMs
    await sleep(Math.max(0, due - performance.now()))
    void fn(n, due)
  }
}

async function ask({ url, authorization }: Setting, { path, body, answer }: Question, due: number, times: number[]) {
  const said = await post(new URL(path, url), JSON.stringify(body), { authorization })
  if (said.startsWith('200 ') && answer.test(said.slice(4))) times.push(performance.now() - due)
  else failures.push(`${path} ${JSON.stringify(body).slice(0, 200)} got ${said.slice(0, 500)}`)
}

function post(url: URL, body: string, headers: Readonly<Record<string, string>>): Promise<string> {
  return new Promise((resolve) => {
    const failed = (error: Error) => resolve(`no answer: ${error.message}`)
    const sent = request(url, { method: 'POST', agent, headers, timeout: DEADLINE_MS }, (response) => {
      text(response).then((said) => resolve(`${response.statusCode ?? 0} ${said}`), failed)
    })
    sent.on('timeout', () => sent.destroy(new Error(`nothing in ${DEADLINE_MS} ms`)))
    sent.on('error', failed)
    sent.end(body)
  })
}
