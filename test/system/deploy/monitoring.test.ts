import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import tap from 'tap'
import { freePort } from '../../kit/free-port.js'
import { testServer } from '../../kit/server.js'
import { until } from '../../kit/until.js'

const MONITORING = fileURLToPath(new URL('../../../../core/deploy/monitoring/', import.meta.url))
const PROMETHEUS = '/usr/bin/prometheus'
const TOKEN = 'the metrics token of a test, long.'

interface Panel {
  readonly title: string
  readonly targets?: readonly { readonly expr: string }[]
}
interface Rule {
  readonly name: string
  readonly health: string
  readonly state: string
}

/** Panels that stay empty while nothing of the kind has happened. */
const MAY_BE_EMPTY = new Set(['Outbox', 'Oldest message', 'Refused requests', 'Lag of standbys'])

const skip = existsSync(PROMETHEUS) ? false : `needs ${PROMETHEUS}`
tap.test('Prometheus reads a server, and evaluates the dashboard and the alerts', { skip }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-monitoring-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const server = await testServer(t, { files: true, notify: true, config: { http: { port: 0, metricsToken: TOKEN } } })
  await copyFile(join(MONITORING, 'alerts.yaml'), join(folder, 'alerts.yaml'))
  await writeFile(
    join(folder, 'prometheus.yml'),
    `global: { scrape_interval: 1s, evaluation_interval: 1s }
rule_files: [alerts.yaml]
scrape_configs:
  - job_name: rowhouse
    authorization: { credentials: ${JSON.stringify(TOKEN)} }
    static_configs: [{ targets: ['${new URL(server.url).host}'] }]
`,
  )
  const port = await freePort()
  const prometheus = spawn(
    PROMETHEUS,
    [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { stdio: 'ignore' },
  )
  t.teardown(() => prometheus.kill('SIGKILL'))
  const ask = async <T>(path: string): Promise<T> => {
    const answer = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`)
    return ((await answer.json()) as { data: T }).data
  }
  const results = async (expr: string): Promise<number> => {
    const answer = await ask<{ result: readonly unknown[] } | undefined>(`query?query=${encodeURIComponent(expr)}`)
    return answer ? answer.result.length : -1
  }
  await server.must('run_sql', { sql: 'create table note (id int primary key)' })
  await server.must('track_table', 'note')
  await until('it has two scrapes of a server that answers queries', async () => {
    await server.must('select', { table: 'note', columns: ['id'] })
    const rate = 'rate(rowhouse_database_query_duration_seconds_count[30s])'
    return (await results(rate).catch(() => 0)) > 0
  })

  const { panels } = JSON.parse(await readFile(join(MONITORING, 'dashboard.json'), 'utf8')) as { panels: Panel[] }
  for (const { title, targets = [] } of panels) {
    for (const { expr } of targets) {
      const count = await results(expr.replaceAll('$__rate_interval', '30s').replaceAll('$job', '.*'))
      t.ok(count >= (MAY_BE_EMPTY.has(title) ? 0 : 1), `${title}: ${expr}`)
    }
  }
  const rules = async () => (await ask<{ groups: { rules: Rule[] }[] }>('rules')).groups.flatMap((each) => each.rules)
  await until('all rules were evaluated', async () => (await rules()).every(({ health }) => health !== 'unknown'))
  t.same(
    (await rules()).filter(({ health, state }) => health !== 'ok' || state === 'firing'),
    [],
    'no rule fails, and a server that is well raises no alert',
  )
})
