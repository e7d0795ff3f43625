import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { findProgram, runProgram } from '../program.js'
import type { Load, LoadJob } from './load.js'

/** Runs wrk. Bodies go through a file: arguments and variables are limited to 128 KiB. */
export async function runWrk(job: LoadJob, seconds: number, folder: string): Promise<Load> {
  const script = join(folder, 'wrk.lua')
  const bodies = join(folder, 'bodies')
  const paths = join(folder, 'paths')
  await writeFile(script, SCRIPT)
  await writeFile(bodies, `${job.bodies.join('\n')}\n`)
  await writeFile(paths, `${(job.paths ?? job.bodies.map(() => job.path)).join('\n')}\n`)
  const output = await runProgram(findProgram('wrk') ?? 'wrk', [
    '--threads=1',
    `--connections=${job.clients}`,
    `--duration=${seconds}s`,
    // A slow answer is slow, and no failure.
    '--timeout=60s',
    `--script=${script}`,
    ...Object.entries(job.headers).flatMap(([name, value]) => ['--header', `${name}: ${value}`]),
    `http://${job.host ?? '127.0.0.1'}:${job.port}${job.path}`,
    '--',
    job.method ?? 'POST',
    bodies,
    paths,
  ])
  return JSON.parse(output.slice(output.indexOf(MARK) + MARK.length)) as Load
}

const MARK = 'RESULT'

/** wrk counts answers of 400 and more among its requests. */
const SCRIPT = `
local requests, sent = {}, 0
init = function(args)
  local path = io.lines(args[3])
  for body in io.lines(args[2]) do requests[#requests + 1] = wrk.format(args[1], path(), nil, body) end
end
request = function()
  sent = sent + 1
  return requests[sent % #requests + 1]
end
done = function(summary, latency)
  local e = summary.errors
  local broken = e.connect + e.read + e.write + e.timeout
  io.write(string.format(
    '${MARK}{"requests": %d, "failures": %d, "seconds": %f, "p50": %f, "p99": %f}',
    summary.requests - e.status, e.status + broken, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
`
