import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import type { Test } from 'tap'
import { rowsOf } from './database.js'
import { ADMIN_SECRET, type As, testServer, type TestServer } from './server.js'
import { until } from './until.js'

export const admin: As = { variables: { 'x-service-user-id': '7' } }
export const user: As = { role: 'user', variables: { 'x-service-user-id': '42' } }

/** A server with files on a disk of its own. */
export interface Files extends TestServer {
  readonly dataDir: string
  /** As admin unless told otherwise; `method` is PUT unless told otherwise. */
  put(
    id: string,
    body: string | Buffer,
    as?: As,
    headers?: Record<string, string>,
    method?: string,
  ): ReturnType<TestServer['fetch']>
  get(id: string, headers?: Record<string, string>, as?: As): ReturnType<TestServer['fetch']>
  /** Files on the disk. */
  blobs(): Promise<number>
  /** Where the bytes of a file are on the disk. */
  blobOf(id: string): Promise<string>
  /** An upload of the admin, of which only a part has arrived. */
  half(
    path: string,
    part: string,
    headers?: Readonly<Record<string, string | number>>,
    method?: string,
  ): Promise<HalfRequest>
}

/** A request whose body has not ended. */
export interface HalfRequest {
  readonly request: ClientRequest
  readonly answer: Promise<{
    readonly status: number
    readonly text: string
    readonly headers: IncomingMessage['headers']
  }>
}

/**
 * @param filestore its part of the configuration
 * @param builtins plugins beside it
 * @param beside a server whose database and folder it uses
 * @param config other sections
 */
export async function filestore(
  t: Test,
  filestore: object = {},
  builtins: Readonly<Record<string, URL>> = {},
  beside?: Pick<Files, 'databaseUrl' | 'dataDir'>,
  config: Readonly<Record<string, unknown>> = {},
): Promise<Files> {
  const dataDir = beside?.dataDir ?? t.testdir({})
  const server = await testServer(t, {
    files: true,
    builtins,
    ...(beside ? { databaseUrl: beside.databaseUrl } : {}),
    config: { dataDir, plugins: { filestore }, ...config },
  })
  const path = (id: string) => `/v1/file/${encodeURIComponent(id)}`
  return {
    ...server,
    dataDir,
    half: (path, part, headers, method) => half(server, path, part, headers, method),
    put: (id, body, as = admin, headers = {}, method = 'PUT') =>
      server.fetch(
        path(id),
        { method, body: body as string, headers: { 'Content-Type': 'text/plain; charset=utf-8', ...headers } },
        as,
      ),
    get: (id, headers = {}, as = admin) => server.fetch(path(id), { headers }, as),
    async blobOf(id) {
      const sql = `select blob_id::text from svc_catalog.svc_file where file_id = '${id}'`
      const { result } = (await server.must('run_sql', { sql })) as { result: string[][] }
      const blob = result[1]?.[0] as string
      return join(dataDir, 'files', blob.slice(-2), blob)
    },
    async blobs() {
      const all = await readdir(join(dataDir, 'files'), { recursive: true, withFileTypes: true })
      return all.filter((entry) => entry.isFile()).length
    },
  }
}

async function half(
  { url, databaseUrl }: TestServer,
  path: string,
  part: string,
  headers: Readonly<Record<string, string | number>> = {},
  method = 'PUT',
): Promise<HalfRequest> {
  const before = await coming(databaseUrl)
  const req = request(url + path, {
    method,
    headers: {
      'x-service-admin-secret': ADMIN_SECRET,
      ...admin.variables,
      'content-type': 'text/plain',
      ...headers,
    },
  })
  const answer = once(req, 'response').then(async ([response]: IncomingMessage[]) => ({
    status: response!.statusCode!,
    headers: response!.headers,
    text: (await buffer(response!)).toString(),
  }))
  answer.catch(() => {})
  req.on('error', () => {})
  req.write(part)
  await until('a part has arrived', async () => (await coming(databaseUrl)) > before)
  return { request: req, answer }
}

/** How many blobs are being received. */
const coming = async (databaseUrl: string): Promise<number> =>
  (await rowsOf(databaseUrl, `select from svc_catalog.svc_blob where state = 'writing' and leased_until < 'infinity'`))
    .length
