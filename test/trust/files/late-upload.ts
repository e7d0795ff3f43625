import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { freshDatabase } from '../../kit/database.js'
import { ADMIN_SECRET } from '../../kit/server.js'
import { until } from '../../kit/until.js'
import type { PartOptions, Score } from '../part.js'
import type { Fault } from './plant.js'
import { tamper } from './tamper.js'
import { startVictim, writeConfig } from './victim.js'

const HEAD = [
  'PUT /v1/file/f HTTP/1.1',
  'Host: x',
  `X-Service-Admin-Secret: ${ADMIN_SECRET}`,
  'X-Service-User-Id: 1',
  'Content-Type: a/b',
]
/** How long the collector hangs between the bytes and the row. */
const HANGS_US = 2_000_000

/** An upload that ends while its bytes, given up, are being taken away: it must be refused. */
export async function lateUpload({ progress }: PartOptions): Promise<Score> {
  const caught = await overtaken('unfenced')
  progress(`planted fault "unfenced": ${caught.length > 0 ? `caught (${caught[0]})` : 'NOT CAUGHT'}`)
  const missed = caught.length > 0 ? [] : ['the planted fault "unfenced" was not caught']
  return {
    done: '1 upload that the collector overtook',
    violations: [...missed, ...(await overtaken(undefined))],
    figures: ['1 planted fault caught by it'],
  }
}

/** @returns what is not as it must be */
export async function overtaken(fault: Fault | undefined): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-trust-'))
  await mkdir(join(folder, 'data'))
  const unplant = await writeConfig(folder, fault)
  const { url: databaseUrl, drop } = await freshDatabase()
  const database = new pg.Client({ connectionString: databaseUrl })
  await database.connect()
  const victim = await startVictim(folder, databaseUrl, 4)
  try {
    const { hostname, port } = new URL(victim.url)
    const send = async (...pieces: readonly (() => Promise<unknown> | string)[]): Promise<string> => {
      const socket = connect(Number(port), hostname)
      let answer = ''
      socket.setEncoding('utf8').on('data', (text: string) => (answer += text))
      for (const piece of pieces) {
        const text = await piece()
        if (typeof text === 'string') socket.write(text)
      }
      await once(socket, 'close')
      return answer
    }
    const head = (...more: string[]) => [...HEAD, 'Connection: close', ...more, '', ''].join('\r\n')
    const status = (answer: string) => Number(answer.split(' ')[1])
    const before = await send(() => `${head('Content-Length: 6')}before`)
    if (status(before) !== 200) return [`the first upload: ${before}`]
    const blobs = async () =>
      (await readdir(join(folder, 'data', 'files'), { recursive: true, withFileTypes: true })).filter((entry) =>
        entry.isFile(),
      ).length
    const strace = await tamper(victim, ['-e', 'trace=unlink', '-e', `inject=unlink:delay_exit=${HANGS_US}`])
    // It does not say how long it is, so its bytes go to the disk as they come.
    const late = await send(
      () => `${head('Transfer-Encoding: chunked')}4\r\nafte\r\n`,
      () => until('bytes of the upload', async () => (await blobs()) === 2),
      () => database.query("update svc_catalog.svc_blob set leased_until = 'epoch' where state = 'writing'"),
      () => until('they are gone', async () => (await blobs()) === 1),
      () => '1\r\nr\r\n0\r\n\r\n',
    )
    await strace.stop()
    await sleep(HANGS_US / 1000)
    const get = await send(() => head('Content-Length: 0').replace('PUT', 'GET'))
    return [
      ...(status(late) === 503 ? [] : [`an upload that was given up: ${late.split('\r\n')[0]}`]),
      ...(status(get) === 200 && get.endsWith('before') ? [] : [`the file then: ${get.split('\r\n')[0]}`]),
    ]
  } finally {
    victim.process.kill('SIGKILL')
    await victim.gone
    await database.end()
    await drop()
    await unplant()
    await rm(folder, { recursive: true, force: true })
  }
}
