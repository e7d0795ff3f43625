import { readFileSync } from 'node:fs'
import { percentile, requestBytes, startLoad } from '../../core/cli/bench/load.js'
import type { Load, LoadJob } from './load.js'

/** `node client.js <job file>`: the load client of `rowhouse bench` in a process of its own; prints a `Load`. */
const { path, headers, bodies, ...job } = JSON.parse(readFileSync(process.argv[2] as string, 'utf8')) as LoadJob
const requests = bodies.map((body) =>
  requestBytes({ method: 'POST', path, headers: { host: '127.0.0.1', ...headers }, body }),
)
const { latencies, failures, seconds } = await startLoad({
  ...job,
  to: { address: '127.0.0.1', port: job.port },
  request: (n) => requests[n % requests.length] as Buffer,
}).done
const load: Load = {
  requests: latencies.length,
  failures: [...failures.values()].reduce((sum, { count }) => sum + count, 0),
  seconds,
  p50: percentile(latencies, 0.5),
  p99: percentile(latencies, 0.99),
}
process.stdout.write(JSON.stringify(load))
