import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { type As, testServer, type TestServer } from './server.js'

export const admin: As = { variables: { 'x-service-user-id': '7' } }
export const user: As = { role: 'user', variables: { 'x-service-user-id': '42' } }

/** A server with files on a disk of its own. */
export interface Files extends TestServer {
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
}

/**
 * @param filestore its part of the configuration
 * @param builtins plugins beside it
 */
export async function filestore(
  t: Test,
  filestore: object = {},
  builtins: Readonly<Record<string, URL>> = {},
): Promise<Files> {
  const dataDir = t.testdir({})
  const server = await testServer(t, { files: true, builtins, config: { dataDir, plugins: { filestore } } })
  const path = (id: string) => `/v1/file/${encodeURIComponent(id)}`
  return {
    ...server,
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
