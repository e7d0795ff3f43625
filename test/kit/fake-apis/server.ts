import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { Ajv } from 'ajv'

/** One request that a fake got. */
export interface Asked {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}
export interface Answer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

export interface FakeApi {
  readonly url: string
  /** Every request, those that it refused among them. */
  readonly asked: readonly Asked[]
  /** What it accepted, as it understood it. */
  readonly taken: readonly Fields[]
  /** How the next request ends, whatever is in it: with an answer, or as the function does it. */
  next(answer: Answer | ((response: ServerResponse) => void)): void
}
export type Fields = Readonly<Record<string, unknown>>

/** What a fake makes of a request: a message it took, or an error in the form of its provider. */
export type Verdict = { readonly took: Fields; readonly answer: Answer } | { readonly answer: Answer }

interface Test {
  teardown(fn: () => unknown): unknown
}

/** A paid API of others on loopback, which looks at requests as they do. */
export async function fakeApi(t: Test, judge: (asked: Asked) => Promise<Verdict> | Verdict): Promise<FakeApi> {
  const asked: Asked[] = []
  const taken: Fields[] = []
  const scripted: (Answer | ((response: ServerResponse) => void))[] = []

  const server = createServer((req, res) => {
    void buffer(req).then(async (body) => {
      const one = { method: req.method ?? '', path: req.url ?? '', headers: req.headers, body }
      asked.push(one)
      const told = scripted.shift()
      if (typeof told === 'function') return told(res)
      if (told !== undefined) return reply(res, told)
      const verdict = await judge(one)
      if ('took' in verdict) taken.push(verdict.took)
      reply(res, verdict.answer)
    }, ignore)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, asked, taken, next: (answer) => scripted.push(answer) }
}

/** A client that went away. */
const ignore = () => {}

function reply(res: ServerResponse, { status, headers, body = '' }: Answer): void {
  res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body)
}

const ajv = new Ajv({ strict: true, strictRequired: false, allowUnionTypes: true, allErrors: true })

/** @returns what is wrong with the fields; '' when nothing is */
export function checker(schema: object): (value: unknown) => string {
  const check = ajv.compile(schema)
  return (value) => (check(value) ? '' : ajv.errorsText(check.errors))
}

/** An object of these properties and no others. */
export const shape = (properties: object, required: readonly string[] = []) => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
})
export const list = (items: object, minItems = 1) => ({ type: 'array', items, minItems })
export const text = { type: 'string', minLength: 1 }
export const base64 = { type: 'string', pattern: '^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$' }
/** `Name <local@domain>` or the address alone; a name with punctuation stands in quotes. */
export const mailbox = {
  type: 'string',
  pattern: String.raw`^(("(\\.|[^"\\])*"|[^"<>,;:@()\[\]\\]+) <[^<>@\s,]+@[^<>@\s,]+>|[^<>@\s,"]+@[^<>@\s,"]+)$`,
}

/** The length of these lists together. */
export const lengthOf = (fields: Fields, ...keys: readonly string[]): number =>
  keys.reduce((sum, key) => sum + ((fields[key] ?? []) as readonly unknown[]).length, 0)

/** JSON of a request that says that it is JSON; undefined: it is not, or does not say so. */
export function jsonOf({ headers, body }: Asked): unknown {
  if (!/^application\/json\b/.test(headers['content-type'] ?? '')) return undefined
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}
