import { createHash, randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type pg from 'pg'
import { ADMIN_SECRET } from '../../kit/server.js'
import { until } from '../../kit/until.js'

const BYTES = 200_000
const HEADERS = { 'X-Service-Admin-Secret': ADMIN_SECRET, 'X-Service-User-Id': '1', 'Content-Type': 'a/b' }
const GIVE_UP_MS = 10_000

/** What a file may hold: the content that was acknowledged last, or one that was tried since. Null: no file. */
interface Known {
  acknowledged: string | null
  readonly tried: (string | null)[]
}

/** What the clients know, and what must then be true. */
export class Model {
  private readonly files = new Map<string, Known>()
  private readonly told: () => void
  acknowledged = 0

  /** @param told called at each change that the server has acknowledged */
  constructor(told: () => void = () => {}) {
    this.told = told
  }

  /** A post, puts, replacements and deletes; ends early when the server is gone. */
  async play(url: string, ids: readonly string[]): Promise<void> {
    for (const id of ids) {
      await this.write(url, id, (this.files.get(id)?.acknowledged ?? null) === null ? 'POST' : 'PUT')
      await this.write(url, id, 'PUT')
    }
    await this.remove(url, ids[0] as string)
  }

  private async write(url: string, id: string, method: 'POST' | 'PUT'): Promise<void> {
    const bytes = randomBytes(BYTES)
    await this.change(id, hashOf(bytes), () => send(url, id, { method, body: bytes }))
  }

  private async remove(url: string, id: string): Promise<void> {
    await this.change(id, null, () => send(url, id, { method: 'DELETE' }))
  }

  private async change(id: string, to: string | null, ask: () => Promise<Response>): Promise<void> {
    const known = this.files.get(id) ?? { acknowledged: null, tried: [] }
    this.files.set(id, known)
    known.tried.push(to)
    const { ok } = await ask()
    if (!ok) return
    this.acknowledged++
    known.acknowledged = to
    known.tried.length = 0
    this.told()
  }

  /** @returns what is not as it must be */
  async check(url: string): Promise<string[]> {
    const violations: string[] = []
    for (const [id, known] of this.files) {
      const response = await send(url, id, {})
      const bytes = await response.arrayBuffer().then(Buffer.from, () => undefined)
      if (!bytes) {
        violations.push(`${id}: breaks off`)
        known.acknowledged = null
        continue
      }
      const is = response.status === 404 ? null : hashOf(bytes)
      const etag = response.headers.get('etag')
      if (![200, 404].includes(response.status)) violations.push(`${id}: status ${response.status}`)
      else if (is !== known.acknowledged && !known.tried.includes(is)) {
        violations.push(`${id}: ${is === null ? 'is gone' : `has ${bytes.length} bytes that nobody wrote`}`)
      } else if (is !== null && etag !== `"${is}"`) violations.push(`${id}: the record is of other bytes`)
      known.acknowledged = is
      known.tried.length = 0
    }
    return violations
  }
}

/** Once what was left over has been taken away: a file on the disk for each blob, each of them live. */
export async function checkDisk(database: pg.Client, folder: string): Promise<string[]> {
  await database.query("update svc_catalog.svc_blob set leased_until = 'epoch' where state = 'writing'")
  const blobs = async () =>
    (await database.query<{ id: string; state: string }>('select blob_id as id, state from svc_catalog.svc_blob')).rows
  const settled = async () => (await blobs()).every(({ state }) => state === 'live')
  await until('everything left over is gone', settled)
  const rows = new Set((await blobs()).map(({ id }) => id))
  const all = await readdir(join(folder, 'data', 'files'), { recursive: true, withFileTypes: true })
  const files = new Set(all.filter((entry) => entry.isFile()).map(({ name }) => name))
  return [
    ...[...rows].filter((id) => !files.has(id)).map((id) => `blob ${id} has no bytes`),
    ...[...files].filter((id) => !rows.has(id)).map((id) => `bytes ${id} have no blob`),
  ]
}

const hashOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

const send = (url: string, id: string, init: RequestInit): Promise<Response> =>
  fetch(`${url}/v1/file/${id}`, { ...init, headers: HEADERS, signal: AbortSignal.timeout(GIVE_UP_MS) })
