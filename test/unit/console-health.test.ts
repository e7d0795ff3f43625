import t from 'tap'
import { findingsOf } from '../../plugins/console/app/panels/health/findings.js'
import { kept, pointsOf } from '../../plugins/console/app/panels/health/history.js'
import { parseMetrics } from '../../plugins/console/app/metrics-text.js'
import { quantile, type Sample, sampleOf } from '../../plugins/console/app/panels/health/samples.js'

t.test('the text of /metrics becomes numbers with labels', async (t) => {
  const text = [
    '# HELP a_total Help with a {brace} and "quotes"',
    '# TYPE a_total counter',
    'a_total 1',
    String.raw`a_total{path="C:\\dir\n",says="\"{}\""} 2.5e3 1700000000000`,
    'a_total{le="+Inf",} +Inf',
    'a_total{} NaN',
    'a_total{route="<img src=x onerror=alert(1)>, 7"} -1\r',
    'a_total{route="open 3',
    'a_total many',
    '',
  ].join('\n')

  t.same(parseMetrics(text), [
    { name: 'a_total', labels: {}, value: 1 },
    { name: 'a_total', labels: { path: 'C:\\dir\n', says: '"{}"' }, value: 2500 },
    { name: 'a_total', labels: { le: '+Inf' }, value: Infinity },
    { name: 'a_total', labels: {}, value: Number.NaN },
    { name: 'a_total', labels: { route: '<img src=x onerror=alert(1)>, 7' }, value: -1 },
  ])
})

t.test('quantiles lie within the bucket that holds their rank', async (t) => {
  const buckets = [
    [0.1, 50],
    [0.5, 90],
    [1, 100],
    [Infinity, 100],
  ] as const

  t.equal(quantile(0.5, buckets), 0.1)
  t.equal(quantile(0.7, buckets)?.toFixed(3), '0.300')
  t.equal(quantile(0.99, buckets)?.toFixed(3), '0.950')
  t.equal(
    quantile(0.5, [
      [1, 0],
      [Infinity, 4],
    ]),
    1,
    'longer than all bounds',
  )
  t.equal(
    quantile(0.5, [
      [1, 0],
      [Infinity, 0],
    ]),
    undefined,
    'nothing happened',
  )
  t.equal(quantile(0.5, []), undefined)
})

t.test('samples have rates of requests by class, without those of monitors', async (t) => {
  const first = sampleAt(0, { ok: 100, failed: 0 })
  const second = sampleAt(4000, { ok: 120, failed: 2 })

  const [, point] = pointsOf([first, second])

  t.same(point!.rates?.requests, { '2xx': 5, '3xx': 0, '4xx': 0, '5xx': 0.5 })
  t.equal(point!.rates?.p50, 0.05, 'of the requests between them')
  t.equal(point!.rates?.cpu, 0.25)
  t.match(point!.sample, { connections: { idle: 3, busy: 1, waiting: 0 }, outbox: { queued: 4 }, oldestMessage: 9 })
})

t.test('a time without readings and a new process are gaps', async (t) => {
  const paused = [sampleAt(0, { ok: 1 }), sampleAt(60_000, { ok: 9 })]
  const restarted = [
    sampleAt(0, { ok: 9 }),
    sampleAt(2000, { ok: 1, process: 2 }),
    sampleAt(4000, { ok: 3, process: 2 }),
  ]

  t.same(
    pointsOf(paused).map(({ at, sample }) => [at, sample !== undefined]),
    [
      [0, true],
      [30_000, false],
      [60_000, true],
    ],
  )
  const points = pointsOf(restarted)
  t.equal(points.length, 4)
  t.equal(points[2]!.rates, undefined, 'counters began anew')
  t.equal(points[3]!.rates?.requests['2xx'], 1)
})

t.test('ten minutes are kept', async (t) => {
  let samples: readonly Sample[] = []
  for (let at = 0; at < 3_600_000; at += 2000) samples = kept(samples, sampleAt(at, { ok: at }))

  t.equal(samples.length, 300)
  t.equal(samples[0]!.at, 3_600_000 - 600_000)
})

t.test('what lasts needs attention, and says why', async (t) => {
  const calm = pointsOf([0, 2, 4, 6, 8, 10, 12].map((seconds) => sampleAt(seconds * 1000, { ok: seconds })))
  const spike = pointsOf([0, 2, 4].map((seconds) => sampleAt(seconds * 1000, { waiting: seconds === 4 ? 7 : 0 })))
  const bad = pointsOf(
    [0, 2, 4].map((seconds) =>
      sampleAt(seconds * 1000, {
        waiting: 3,
        failed: seconds,
        breaker: 1,
        lag: 0.5,
        listening: 0,
        oldest: 900,
        damaged: 2,
      }),
    ),
  )
  const attention = (points: typeof calm, known = {}) =>
    findingsOf(points, known).flatMap(({ title, isFine, words }) => (isFine === false ? [`${title}: ${words}`] : []))
  const deaf = pointsOf([0, 2, 4].map((seconds) => sampleAt(seconds * 1000, { listening: 0, oldest: 900 })))

  t.same(findingsOf([]), [])
  t.same(attention(calm), [])
  t.same(attention(spike), [])
  t.same(attention(calm, { storedMetadata: '13' }), ['Metadata: the database has version 13'])
  t.same(attention(bad), [
    'Requests: some failed at the server (5xx) in the last minute',
    'Database: requests fail until it answers again',
    'Connections: 3 requests or more wait for one',
    'Compile workers: 3 new requests or more wait for one',
    'Event loop (p99): something keeps the process busy too long',
    'Damaged files: run rowhouse fsck',
  ])
  t.same(attention(deaf), [
    'Metadata: does not listen: changes arrive within 5 s',
    'Outbox: the oldest waits for 15 min',
  ])
  t.same(attention(deaf.slice(0, 2).concat(calm.at(-1)!)), [], 'it listens again')
})

t.test('a latency of more than a second is not ok, not even at first', async (t) => {
  const points = pointsOf([0, 2].map((seconds) => sampleAt(seconds * 1000, { slow: seconds })))

  t.match(
    findingsOf(points).find(({ title }) => title === 'Latency (p99)'),
    { isFine: false, words: /^longer than a second; half of the requests take 5/ },
  )
})

t.test('without a database, nothing is said about what only the database knows', async (t) => {
  const down = pointsOf([0, 2].map((seconds) => sampleAt(seconds * 1000, { breaker: 1, listening: 0, oldest: 900 })))
  const unknown = findingsOf(down).flatMap(({ title, isFine }) => (isFine === undefined ? [title] : []))

  t.same(unknown, ['Metadata', 'Outbox'])
})

function sampleAt(at: number, given: Readonly<Record<string, number>> = {}): Sample {
  const {
    ok = 0,
    failed = 0,
    process = 1,
    slow = 0,
    waiting = 0,
    breaker = 0,
    lag = 0.01,
    listening = 1,
    oldest = 9,
  } = given
  const of = (route: string, status: number) => `{method="GET",route="${route}",status="${status}",plugin=""`
  const histogram = (labels: string, count: number) => `
    d_bucket${labels},le="0.1"} ${count}\nd_bucket${labels},le="+Inf"} ${count}\nd_count${labels}} ${count}`
  const text = `process_start_time_seconds ${process}
    process_cpu_seconds_total ${at / 4000}
    ${histogram(of('/v1/query', 200), ok)}
    ${histogram(of('/v1/query', 500), failed)}
    ${histogram(of('/metrics', 200), at)}
    d_bucket${of('/v1/query', 200)},le="10"} ${ok + failed + slow}
    d_bucket${of('/v1/query', 200)},le="+Inf"} ${slow}
    rowhouse_database_breaker_open ${breaker}
    rowhouse_database_connections{pool="main",state="idle"} 3
    rowhouse_database_connections{pool="main",state="busy"} 1
    rowhouse_database_connections{pool="main",state="waiting"} ${waiting}
    rowhouse_database_connections{pool="admin",state="busy"} 4
    rowhouse_compile_tasks{state="busy"} 1
    rowhouse_compile_tasks{state="waiting"} ${waiting}
    rowhouse_metadata_version 12
    rowhouse_metadata_listening ${listening}
    nodejs_eventloop_lag_p99_seconds ${lag}
    rowhouse_notify_outbox_messages{kind="email",state="queued"} 3
    rowhouse_notify_outbox_messages{kind="sms",state="queued"} 1
    rowhouse_notify_outbox_oldest_seconds{kind="email"} ${oldest}
    rowhouse_notify_outbox_oldest_seconds{kind="sms"} 2
    rowhouse_filestore_damaged ${given['damaged'] ?? 0}`
  const lines = text.replaceAll(/^ +/gm, '').replaceAll(/^d_/gm, 'rowhouse_http_request_duration_seconds_')
  return sampleOf(parseMetrics(lines), at)
}
