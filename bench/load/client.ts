import { readFileSync } from 'node:fs'
import { percentile, requestBytes, startLoad } from '../../plugins/bench/load.js'
import type { Load, LoadJob } from './load.js'

/** `node client.js <job file>`: the load client of `rowhouse bench` in a process of its own; prints a `Load`. */
const job = JSON.parse(readFileSync(process.argv[2] as string, 'utf8')) as LoadJob
const { host = '127.0.0.1', method = 'POST', lateMs } = job
const requests = job.bodies.map((body, n) =>
  requestBytes({
    method,
    path: job.paths?.[n] ?? job.path,
    headers: { host, ...job.headers, ...job.headersEach?.[n] },
    body,
  }),
)
const { latencies, failures, seconds } = await startLoad({
  clients: job.clients,
  window: job.window,
  to: { host, port: job.port },
  request: (n) => requests[n % requests.length] as Buffer,
})
const load: Load = {
  requests: latencies.length,
  failures: [...failures.values()].reduce((sum, { count }) => sum + count, 0),
  seconds,
  p50: percentile(latencies, 0.5),
  p99: percentile(latencies, 0.99),
  ...(lateMs === undefined ? {} : { late: latencies.filter((ms) => ms > lateMs).length }),
}
process.stdout.write(JSON.stringify(load))
