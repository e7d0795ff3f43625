import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { request } from 'node:http'
import type { Readable } from 'node:stream'
import type { Bench } from '../bench.js'
import { readMemory } from '../cpu.js'
import { comments } from '../data.js'
import { clientEnvironment, withClient } from '../database.js'
import { findProgram } from '../program.js'
import { interleave, type Job, type Section } from '../section.js'
import { byGateway, queryPost, startServerChild } from '../systems/server.js'

const QUERY = { type: 'select', args: { table: 'comment', columns: ['id', 'article_id', 'body'] } }
const REFERENCE = 'select id, article_id, body from comment where not hidden'

/** All comments as NDJSON, beside PostgreSQL's own way to write the same JSON. */
export async function measureStream(bench: Bench): Promise<Section> {
  const psql = findProgram('psql')
  const rows = await withClient(bench.url, async (client) => {
    const { rows: counted } = await client.query<{ n: number }>(`select count(*)::int as n from (${REFERENCE}) x`)
    return counted[0]?.n ?? 0
  })
  const jobs: Job[] = [
    { system: 'rowhouse', measure: () => overHttp(bench.url, rows) },
    ...(psql === undefined ? [] : [{ system: 'psql copy', measure: () => overPsql(psql, bench.url, rows) }]),
  ]
  return {
    id: 'g',
    title: `stream ${rows} of ${comments(bench.size)} rows as NDJSON`,
    columns: { rate: 'rows/s', first: 'first byte ms', mib: 'MiB', peak: 'peak RSS MiB' },
    compared: 'rate',
    lessIsBetter: ['first', 'peak'],
    targets: [
      { system: 'rowhouse', figure: 'first', most: 20 },
      { system: 'rowhouse', figure: 'peak', most: 100 },
    ],
    cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`g: ${text}`)),
    notMeasured: psql === undefined ? ['psql, which is not installed'] : [],
  }
}

/** The second stream of a fresh server: the first has compiled the query, and its memory counts too. */
async function overHttp(url: string, rows: number): Promise<Awaited<ReturnType<Job['measure']>>> {
  const server = await startServerChild(url)
  try {
    await stream(server.port)
    const start = performance.now()
    const read = await stream(server.port)
    const peak = readMemory(server.pid, 'VmHWM')
    return judged(read, start, rows, peak === undefined ? {} : { peak })
  } finally {
    await server.stop()
  }
}

async function stream(port: number): Promise<Read> {
  const { path, headers, body } = queryPost(QUERY, { ...byGateway, accept: 'application/x-ndjson' })
  const asked = request({ host: '127.0.0.1', port, path, method: 'POST', headers, agent: false }).end(body)
  const [answer] = (await once(asked, 'response')) as [Readable & { statusCode: number }]
  const read = await readLines(answer)
  if (answer.statusCode !== 200)
    throw new Error(`g: the stream is answered ${answer.statusCode} ${JSON.stringify(read)}`)
  return read
}

/** With the start of psql and its connection. */
async function overPsql(psql: string, url: string, rows: number): Promise<Awaited<ReturnType<Job['measure']>>> {
  const start = performance.now()
  const child = spawn(
    psql,
    ['--no-psqlrc', '--quiet', '--command', `copy (select row_to_json(x)::text from (${REFERENCE}) x) to stdout`],
    { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, ...clientEnvironment(url) } },
  )
  const ended = once(child, 'exit')
  const read = await readLines(child.stdout)
  await ended
  return judged(read, start, rows, {})
}

interface Read {
  readonly lines: number
  readonly bytes: number
  /** Of `performance.now()`. */
  readonly firstAt: number
  readonly endAt: number
}

async function readLines(source: Readable): Promise<Read> {
  let lines = 0
  let bytes = 0
  let firstAt = 0
  for await (const chunk of source as AsyncIterable<Buffer>) {
    firstAt ||= performance.now()
    bytes += chunk.length
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines++
  }
  return { lines, bytes, firstAt, endAt: performance.now() }
}

function judged({ lines, bytes, firstAt, endAt }: Read, start: number, rows: number, more: Record<string, number>) {
  return {
    figures: {
      rate: lines / ((endAt - start) / 1000),
      first: firstAt - start,
      mib: bytes / 1024 / 1024,
      ...more,
    },
    ...(lines === rows ? {} : { void: `${lines} rows came, not ${rows}` }),
  }
}
