import { Agent, type IncomingHttpHeaders, request } from 'node:http'
import pg from 'pg'
import { rowsOf } from '../database.js'
import { GATEWAY_SECRET, testServer, type TestServer } from '../server.js'
import { type Era, metadataOf } from './permissions.js'
import type { Case } from './requests.js'
import { FILES } from './requests.js'
import { type Json, schemaSql } from './schema.js'
import { type Content, fillSql, NAMES } from './worlds.js'
import type { Template } from './writes.js'

/** All that a client can tell of an answer. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** The connection ended before the answer did. */
  readonly cut: boolean
}

/** Two servers on databases of their own, which are asked the same. */
export interface Twins {
  /** Forgets all metadata and says it anew. */
  begin(era: Era, templates: readonly Template[]): Promise<void>
  fill(content: Content): Promise<void>
  ask(test: Case, number: number): Promise<readonly [Answer, Answer]>
}

export async function startTwins(t: { teardown(fn: () => Promise<void>): unknown }): Promise<Twins> {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 })
  const [first, second] = await Promise.all([startWorld(t, 0), startWorld(t, 1)])
  t.teardown(async () => agent.destroy())
  const both = <T>(fn: (world: World) => Promise<T>): Promise<[T, T]> => Promise.all([fn(first), fn(second)])
  return {
    async begin(era, templates) {
      await both(({ server, number }) => install(server, era, templates, number))
    },
    async fill(content) {
      await both(({ client, number }) => client.query(fillSql(content, number)))
    },
    async ask(test, number) {
      const [one, other] = await both(({ server }) => answer(server.url, agent, test, number))
      return [one, other]
    },
  }
}

interface World {
  readonly number: 0 | 1
  readonly server: TestServer
  readonly client: pg.Client
}

async function startWorld(t: { teardown(fn: () => Promise<void>): unknown }, number: 0 | 1): Promise<World> {
  const server = await testServer(t, { files: true })
  await rowsOf(server.databaseUrl, schemaSql(NAMES[number]))
  await server.must('run_sql', {
    sql: `create table document (file_id text primary key, org_id int);
      insert into document select 'c' || n, n % 3 + 1 from generate_series(1, 9) n`,
  })
  await server.must('reload_metadata', {})
  const client = new pg.Client({ connectionString: server.databaseUrl })
  client.on('error', () => {})
  await client.connect()
  t.teardown(() => client.end())
  return { number, server, client }
}

async function install(server: TestServer, era: Era, templates: readonly Template[], number: 0 | 1): Promise<void> {
  await server.must('clear_metadata', {})
  await server.must('bulk', [
    ...metadataOf(era, NAMES[number]),
    ...fileRules(Object.keys(era.roles)),
    ...templates.map(({ name, query }) => ({ type: 'create_query_template', args: { name, template: query } })),
  ])
  // The first half of the hidden files is in one world, the second in the other.
  const hidden = FILES.hidden.filter((_, i) => i % 2 === number)
  for (const id of FILES.hidden) await server.fetch(`/v1/file/${id}`, { method: 'DELETE' }, FILE_OWNER)
  for (const id of [...FILES.common, ...hidden]) {
    const headers = { 'content-type': 'text/plain' }
    const { status, text } = await server.fetch(
      `/v1/file/${id}`,
      { method: 'PUT', body: `bytes of ${id}`, headers },
      FILE_OWNER,
    )
    if (status !== 200) throw new Error(`file ${id}: ${text}`)
  }
}
const FILE_OWNER = { variables: { 'x-service-user-id': '91' } }

/** A file is its org's by a row of `document`, which hidden files lack. */
function fileRules(roles: readonly string[]): readonly object[] {
  const table = { schema: 'svc_catalog', name: 'svc_file' }
  const using = { manual_configuration: { remote_table: 'document', column_mapping: { file_id: 'file_id' } } }
  const filter = { document: { org_id: 'X-Service-Org-Id' } }
  return [
    { type: 'track_table', args: table },
    { type: 'track_table', args: 'document' },
    { type: 'create_object_relationship', args: { table, name: 'document', using } },
    ...roles.flatMap((role) => [
      {
        type: 'create_select_permission',
        args: { table, role, permission: { columns: ['file_id', 'file_size'], filter } },
      },
      { type: 'create_insert_permission', args: { table, role, permission: { columns: [], check: filter } } },
      { type: 'create_update_permission', args: { table, role, permission: { columns: [], filter } } },
      { type: 'create_delete_permission', args: { table, role, permission: { filter } } },
    ]),
  ]
}

function answer(url: string, agent: Agent, test: Case, number: number): Promise<Answer> {
  const { method, path, role, user, org, headers, body } = test
  const bytes = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body)
  return new Promise((resolve, reject) => {
    const sent = request(
      url + path,
      {
        method,
        agent,
        headers: {
          'x-service-gateway-secret': GATEWAY_SECRET,
          'x-service-role': role,
          'x-service-user-id': String(user),
          'x-service-org-id': String(org),
          'x-request-id': `case-${number}`,
          ...(bytes === undefined
            ? {}
            : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(bytes) }),
          ...headers,
        },
      },
      (response) => {
        let text = ''
        const end = (cut: boolean) =>
          resolve({ status: response.statusCode ?? 0, headers: told(response.headers), body: text, cut })
        response.setEncoding('utf8')
        response.on('data', (part: string) => (text += part))
        response.on('end', () => end(false))
        response.on('error', () => end(true))
      },
    )
    sent.on('error', reject)
    sent.end(bytes)
  })
}

/** Headers that do not tell the time. */
function told(headers: IncomingHttpHeaders): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => (TIMES.has(name) ? [] : [[name, String(value)]])),
  )
}
const TIMES: ReadonlySet<string> = new Set(['date', 'last-modified'])

/**
 * How two answers differ, in words that are alike for all differences of a kind; undefined when they do not. A fault of
 * the server counts, even if both have it.
 * @param listed what is answered lists names, in any order; else only rows of a write come in any order
 */
export function difference(one: Answer, other: Answer, listed = false): string | undefined {
  const fault = [one, other].some(({ status }) => status === 500)
  if (!fault && JSON.stringify(one) === JSON.stringify(other)) return undefined
  const [first, second] = [one, other].map((each) => inOrder(timeless(each), listed))
  return fault || first !== second ? [said(one), said(other)].sort().join(' / ') : undefined
}

/** An answer without the time, which has more or fewer digits. */
function timeless(answer: Answer): Answer {
  const body = answer.body.replaceAll(/"created_at" : "[^"]*"/g, '')
  return body === answer.body ? answer : { ...answer, body, headers: { ...answer.headers, 'content-length': '' } }
}

function inOrder({ body, ...rest }: Answer, listed: boolean): string {
  const sorts = listed || body.includes('"returning"')
  return JSON.stringify({ ...rest, body: sorts ? sorted(parsed(body), listed) : body })
}

function parsed(body: string): Json {
  try {
    return JSON.parse(body) as Json
  } catch {
    return body
  }
}

function sorted(value: Json, listed: boolean, key = ''): Json {
  if (Array.isArray(value)) {
    const all = value.map((each) => sorted(each as Json, listed))
    return listed || key === 'returning' ? all.sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)) : all
  }
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([name, each]) => [name, sorted(each as Json, listed, name)] as const)
  return Object.fromEntries(listed ? entries.sort(([a], [b]) => (a < b ? -1 : 1)) : entries)
}

/** An answer without its values. */
function said({ status, body, cut }: Answer): string {
  const error = /"(?:error|message)" ?: ?"((?:[^"\\]|\\.)*)"/.exec(body)?.[1]
  const words =
    error
      ?.replaceAll(/\\"[^"]*\\"/g, '"..."')
      .replaceAll(/'[^']*'/g, "'...'")
      .replaceAll(/\d+/g, '0') ?? 'data'
  return `${status} ${words}${cut ? ' (cut)' : ''}`
}
