import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { buildSchema, graphql } from 'graphql'
import { startServer } from '../../core/host/server.js'
import { weatherServer } from '../../plugins/stitch/example/weather.js'
import { ADMIN_SECRET } from './server.js'

interface Test {
  teardown(fn: () => unknown): unknown
}

/** One request that a schema got. */
export interface Got {
  readonly method: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}
export interface Remote {
  readonly url: string
  /** What it got so far. */
  readonly got: Got[]
  close(): Promise<void>
}

/** A service that answers whatever it is told. */
export async function stubRemote(t: Test, answer: (got: Got, res: ServerResponse) => unknown): Promise<Remote> {
  const got: Got[] = []
  const server = createServer((req, res) => {
    void text(req).then((body) => {
      const one = { method: req.method ?? '', headers: req.headers, body }
      got.push(one)
      return answer(one, res)
    })
  })
  return listening(t, server, got)
}

/** The weather of the example. */
export function weatherRemote(t: Test): Promise<Remote> {
  const got: Got[] = []
  return listening(
    t,
    weatherServer((body) => got.push({ method: 'POST', headers: {}, body })),
    got,
  )
}

/** A service with a schema of its own. */
export function schemaRemote(t: Test, sdl: string, rootValue: object): Promise<Remote> {
  const schema = buildSchema(sdl)
  return stubRemote(t, async ({ body }, res) => {
    const { query, variables } = JSON.parse(body) as { query: string; variables?: Record<string, unknown> }
    const answer = await graphql({ schema, rootValue, source: query, variableValues: variables ?? {} })
    res.setHeader('content-type', 'application/json')
    res.end(JSON.stringify(answer))
  })
}

async function listening(t: Test, server: Server, got: Got[]): Promise<Remote> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  t.teardown(close)
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, got, close }
}

export interface Answer {
  readonly status: number
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any
  readonly text: string
  readonly headers: Headers
}
export interface Stitched {
  readonly url: string
  /** `POST /v1/stitch`. */
  ask(query: string, variables?: object, headers?: Readonly<Record<string, string>>): Promise<Answer>
  fetch(path: string, init?: RequestInit): Promise<Answer>
}

/** A server with nothing but the plugin, and no database. */
export async function stitchServer(
  t: Test,
  stitch: object,
  auth: object = { adminSecret: ADMIN_SECRET },
): Promise<Stitched> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-stitch-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'rowhouse.config.json')
  await writeFile(file, JSON.stringify({ http: { port: 0 }, log: { level: 'silent' }, auth, plugins: { stitch } }))
  const server = await startServer({
    file,
    env: {},
    cwd: folder,
    builtins: {
      plugins: {},
      optional: { stitch: new URL('../../plugins/stitch/index.js', import.meta.url) },
      providers: {},
    },
  })
  t.teardown(() => server.close())
  const get = async (path: string, init: RequestInit = {}): Promise<Answer> => {
    const response = await fetch(server.url + path, init)
    const body = await response.text()
    return { status: response.status, body: parsed(body), text: body, headers: response.headers }
  }
  return {
    url: server.url,
    fetch: get,
    ask: (query, variables = {}, headers = {}) =>
      get('/v1/stitch', { method: 'POST', headers, body: JSON.stringify({ query, variables }) }),
  }
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return undefined
  }
}
