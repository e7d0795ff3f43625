import { json } from 'node:stream/consumers'
import { requestBytes, startLoad } from '../../plugins/bench/load.js'
import { loadOf, type LoadJob } from './load.js'

/** The load client of `rowhouse bench` in a process of its own: reads a `LoadJob`, prints a `Load`. */
const job = (await json(process.stdin)) as LoadJob
const { host = '127.0.0.1', port, method = 'POST', clients, window, lateMs } = job
const requests = job.bodies.map((body, n) =>
  requestBytes({
    method,
    path: job.paths?.[n] ?? job.path,
    headers: { host, ...job.headers, ...job.headersEach?.[n] },
    body,
  }),
)
const { latencies, failures, seconds } = await startLoad({
  clients,
  window,
  to: { host, port },
  request: (n) => requests[n % requests.length] as Buffer,
})
const failed = [...failures.values()].reduce((sum, { count }) => sum + count, 0)
const late = lateMs === undefined ? undefined : latencies.filter((ms) => ms > lateMs).length
process.stdout.write(JSON.stringify({ ...loadOf(latencies, failed, seconds), late }))
