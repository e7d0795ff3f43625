import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { rowsOf } from '../../kit/database.js'
import { ADMIN_SECRET } from '../../kit/server.js'
import { checkDisk } from '../files/model.js'

const PENDING_BYTES = 60_000
const GIVE_UP_MS = 6000
export const USER = { 'X-Service-User-Id': '1' }

const built = (path: string): string => fileURLToPath(new URL(`../../../${path}`, import.meta.url))

/**
 * The configuration of servers that store files in `data` of a folder, and send mails nowhere.
 * @param plugins other places of them
 */
export const filesConfig = (
  folder: string,
  { filestore, ...plugins }: Readonly<Record<string, { readonly use: string }>>,
): object => ({
  dataDir: join(folder, 'data'),
  providers: {
    storage: { disk: { use: built('providers/storage/disk.js') } },
    email: { memory: { use: built('providers/email/memory.js') } },
  },
  plugins: {
    ...plugins,
    filestore: {
      use: filestore?.use ?? built('plugins/filestore/index.js'),
      collect: { everySeconds: 1, graceSeconds: 0 },
      pending: { maxPerUser: 100_000 },
    },
  },
})

/** Uploads the file of a request as pending. Returns the status, or undefined without a whole answer. */
export async function uploadPending(url: string, n: number): Promise<number | undefined> {
  const answer = await send(`${url}/v1/file/${fileOf(n)}?pending=true`, { method: 'POST', body: bytesOf(n) })
  return answer?.status
}

/** A row, a file and a mail, each with what an earlier step answered. @param refused it fails after all of that */
export function attachingBulk(n: number, refused: boolean): object {
  const row = { request: n, file: { $ref: 'file.file_id' } }
  const mail = { to: 'a@example.com', from: 'shop@example.com', sub: { $ref: 'row.returning[0].file' }, text: 'Look' }
  const args = [
    { as: 'file', type: 'attach_file', args: { file_id: fileOf(n) } },
    { as: 'row', type: 'insert', args: { table: 'effect', objects: [row], returning: ['id', 'file'] } },
    { type: 'send_email', args: mail },
    { type: 'count', args: { table: 'effect', where: { request: n } }, expect: { rows: refused ? 2 : 1 } },
  ]
  return { type: 'bulk', args }
}

/**
 * Compares files and mails with the bulks that were answered. Then everything else is collected.
 * @param url of a server that stays
 */
export async function wrongFiles(
  { folder, databaseUrl, url }: { readonly folder: string; readonly databaseUrl: string; readonly url: string },
  attached: ReadonlySet<number>,
  refused: ReadonlySet<number>,
): Promise<string[]> {
  const violations: string[] = []
  const mails = await rowsOf<{ sub: string; n: number }>(
    databaseUrl,
    'select sub, count(*)::int as n from svc_catalog.svc_outbox group by 1',
  )
  const counts = new Map(mails.map(({ sub, n }) => [sub, n]))
  const expected = new Set([...attached].map(fileOf))
  for (const id of expected) if (counts.get(id) !== 1) violations.push(`${id}: ${counts.get(id) ?? 0} mails`)
  for (const id of counts.keys()) if (!expected.has(id)) violations.push(`${id}: a mail without an answer`)
  const database = new pg.Client({ connectionString: databaseUrl })
  await database.connect()
  try {
    violations.push(...(await checkDisk(database, folder)))
    const { rows } = await database.query('select file_id from svc_catalog.svc_pending_file')
    violations.push(...rows.map(({ file_id: id }) => `${id}: is still pending`))
  } finally {
    await database.end()
  }
  for (const n of attached) {
    const answer = await send(`${url}/v1/file/${fileOf(n)}`)
    if (answer?.status !== 200) violations.push(`${fileOf(n)}: attached, and the answer is ${answer?.status}`)
    else if (!answer.bytes.equals(bytesOf(n))) violations.push(`${fileOf(n)}: has other bytes`)
  }
  for (const n of refused) {
    const answer = await send(`${url}/v1/file/${fileOf(n)}`)
    if (answer?.status !== 404) violations.push(`${fileOf(n)}: refused, and the answer is ${answer?.status}`)
  }
  return violations
}

const fileOf = (n: number): string => `file-${n}`
const bytesOf = (n: number): Buffer => Buffer.alloc(1 + ((n * 7919) % PENDING_BYTES), `${n} `)

async function send(
  url: string,
  init: { readonly method?: string; readonly body?: Buffer } = {},
): Promise<{ readonly status: number; readonly bytes: Buffer } | undefined> {
  try {
    const response = await fetch(url, {
      ...(init as RequestInit),
      headers: { 'X-Service-Admin-Secret': ADMIN_SECRET, 'Content-Type': 'text/plain', ...USER },
      signal: AbortSignal.timeout(GIVE_UP_MS),
    })
    return { status: response.status, bytes: Buffer.from(await response.arrayBuffer()) }
  } catch {
    return undefined
  }
}
