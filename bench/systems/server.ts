import { randomBytes } from 'node:crypto'
import { SignJWT } from 'jose'
import type { Build } from '../bench.js'
import { USER_ID } from '../data.js'
import { startChild, type Child, type Post } from './child.js'

/** The server under measurement, with authentication, permissions, metrics and the request log on. */
export interface BenchServer extends Child {
  /** Of its database. */
  readonly url: string
  readonly ask: Ask
  /** The schema of the older GraphQL dialect, as admin. */
  schema(): Promise<string>
}
/** `POST /v1/query` as admin. @throws Error when the answer is no 200 */
export type Ask = (type: string, args: unknown) => Promise<unknown>

const secret = randomBytes(32).toString('hex')
/** Of the issuer of tokens. */
export const JWT_KEY = randomBytes(32).toString('hex')
/** The role `admin`. */
export const byAdmin: Readonly<Record<string, string>> = { 'x-service-admin-secret': secret }

/** The role `user`, vouched for by a gateway: the cheapest proof there is. */
export const byGateway: Readonly<Record<string, string>> = {
  'x-service-gateway-secret': secret,
  'x-service-role': 'user',
  'x-service-user-id': String(USER_ID),
}

/** The role `user` by a signed token (HS256), which is verified at every request. */
export async function byToken(): Promise<Readonly<Record<string, string>>> {
  const rowhouse = {
    'x-service-allowed-roles': ['user'],
    'x-service-default-role': 'user',
    'x-service-user-id': String(USER_ID),
  }
  const token = await new SignJWT({ rowhouse })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime('1d')
    .sign(Buffer.from(JWT_KEY))
  return { authorization: `Bearer ${token}` }
}

/** Where a server keeps files. */
export interface FilesOnDisk {
  readonly folder: string
  readonly durability: 'full' | 'process'
}

/** What a server has beside its database. */
export interface More {
  readonly files?: FilesOnDisk
  /** Where it sends mail: `SMTP_PORT` and `CONNECTIONS`. */
  readonly smtp?: Readonly<Record<string, string>>
  /** The folder of another build's compiled files. */
  readonly build?: string | undefined
  /** More of its configuration, as variables of the environment. */
  readonly env?: Readonly<Record<string, string>>
}

/** What `rowhouse start` cannot be told by the environment. */
const SPECIAL = ['FILES', 'SMTP_PORT', 'PROCESSES', 'PLUGIN']

/** @param probe the request that must be answered before it counts as started, as the role `admin` */
export async function startServerChild(
  databaseUrl: string,
  probe: object = NOTHING_MUCH,
  { files, smtp = {}, build, env: more = {} }: More = {},
): Promise<BenchServer> {
  const env = {
    DATABASE_URL: databaseUrl,
    ROWHOUSE_ADMIN_SECRET: secret,
    ROWHOUSE_AUTH__GATEWAY_SECRET: secret,
    ROWHOUSE_AUTH__JWT__ALGORITHMS: 'HS256',
    ROWHOUSE_AUTH__JWT__KEY: JWT_KEY,
    ...(files ? { FILES: files.folder, DURABILITY: files.durability } : {}),
    ...smtp,
    ...(build === undefined ? {} : { BUILD: build }),
    ...more,
  }
  const program = SPECIAL.some((name) => name in env) ? 'rowhouse' : 'command'
  const child = await startChild(program, env, queryPost(probe, byAdmin))
  const schema = async () => {
    const response = await fetch(`http://127.0.0.1:${child.port}/v1alpha1/graphql/schema`, { headers: byAdmin })
    if (response.status !== 200) throw new Error(`the schema is answered ${response.status}`)
    return response.text()
  }
  return { ...child, url: databaseUrl, schema, ask: (type, args) => ask(child.port, { type, args }) }
}

/** A server of one of the builds that are measured, on its own data. */
export const startBuild = ({ url, folder }: Build, probe: object = NOTHING_MUCH): Promise<BenchServer> =>
  startServerChild(url, probe, { build: folder })

/** Answered by any database, without any table. */
export const NOTHING_MUCH = { type: 'bulk', args: [] }

export function queryPost(query: unknown, headers: Readonly<Record<string, string>>): Post {
  return {
    path: '/v1/query',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(query),
  }
}

async function ask(port: number, query: unknown): Promise<unknown> {
  const { text } = await send(port, queryPost(query, byAdmin))
  return JSON.parse(text)
}

/** @throws Error when the answer is no 200 */
export async function send(
  port: number,
  { method = 'POST', path, headers, body }: Post,
  { host = '127.0.0.1', signal }: { readonly host?: string; readonly signal?: AbortSignal } = {},
): Promise<{ text: string; bytes: number }> {
  const sent = { ...(method === 'GET' ? {} : { body }), ...(signal ? { signal } : {}) }
  const response = await fetch(`http://${host}:${port}${path}`, { method, headers: { ...headers }, ...sent })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status}: ${text}`)
  return { text, bytes: Buffer.byteLength(text) }
}

/** The SQL that a select compiles to for the role `user`, with `$1`, `$2`, ... where values go. */
export async function compiledSql(port: number, query: unknown): Promise<string> {
  const body = { query, role: 'user', headers: { 'X-Service-User-Id': String(USER_ID) } }
  const post = { ...queryPost(body, byAdmin), path: '/v1/query/explain' }
  return (JSON.parse((await send(port, post)).text) as { sql: string }).sql
}
