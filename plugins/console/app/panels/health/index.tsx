import { useLocation, useRoute } from 'preact-iso'
import { trouble } from '../../api.js'
import { isAdmin } from '../../session.js'
import { Problem } from '../../ui/problem.js'
import { Tabs } from '../../ui/tabs.js'
import { IndexAdvice } from './advice.js'
import { type Finding, findingsOf } from './findings.js'
import { clockText } from '../../time.js'
import { EVERY_MS, pointsOf } from './history.js'
import { Log } from './log.js'
import { Overview } from './overview.js'
import { Server } from './server.js'
import { Slow } from './slow.js'
import { readiness, readMetrics, readReadiness, readStatus, samples, status, useWatched } from './watch.js'

const SELDOM_MS = 10_000

const TABS = [
  { key: 'now', title: 'Now' },
  { key: 'slow', title: 'Slow queries' },
  { key: 'indexes', title: 'Indexes' },
  { key: 'server', title: 'Server' },
  { key: 'log', title: 'Log' },
] as const
type Key = (typeof TABS)[number]['key']

/** What the server that answers does now, and did in the last minutes: `/console/health`, `/console/health/log`. */
export default function Health() {
  if (!isAdmin.value) return <p class="empty">Only an admin sees the health of the server.</p>
  return <AdminHealth />
}

function AdminHealth() {
  const { rest = '' } = useRoute() as { readonly rest?: string }
  const { route } = useLocation()
  useWatched(samples, readMetrics, EVERY_MS)
  useWatched(readiness, readReadiness, readiness.value.value?.status === 'ready' ? SELDOM_MS : EVERY_MS)
  useWatched(status, readStatus, SELDOM_MS)
  const chosen: Key = TABS.find(({ key }) => key === rest.replace(/^\//, ''))?.key ?? 'now'
  const { value, at, failure } = samples.value
  const points = pointsOf(value ?? [])
  const { pools, database } = status.value.value ?? {}
  const findings = findingsOf(points, {
    maxConnections: pools?.find(({ name }) => name === 'main')?.max,
    storedMetadata: database?.metadata_version,
  })
  const isStale = failure !== undefined
  return (
    <div class="page health">
      <div class="bar">
        <h1>Health</h1>
        <Headline findings={findings} isStale={isStale} />
        {at !== undefined && (
          <span class="soft push">{isStale ? `Last figures: ${clockText(at)}` : clockText(at)}</span>
        )}
      </div>
      <Tabs label="Health" tabs={TABS} chosen={chosen} onChoose={(key) => route(`/console/health/${key}`)} />
      <div
        class={`scroll${isStale && chosen !== 'log' ? ' stale' : ''}`}
        role="tabpanel"
        tabIndex={0}
        aria-label={TABS.find(({ key }) => key === chosen)?.title}
      >
        {failure !== undefined && trouble.value === '' && chosen === 'now' && <Problem of={failure} />}
        {chosen === 'now' && <Overview points={points} findings={findings} isStale={isStale} />}
        {chosen === 'slow' && <Slow />}
        {chosen === 'indexes' && <IndexAdvice />}
        {chosen === 'server' && <Server />}
        {chosen === 'log' && <Log />}
      </div>
    </div>
  )
}

/** Says in one sentence whether somebody has to do something. */
function Headline({ findings, isStale }: { readonly findings: readonly Finding[]; readonly isStale: boolean }) {
  if (isStale) return <p class="bad headline">The server does not give figures now. What is shown was true before.</p>
  if (findings.length === 0) return null
  const failing = (readiness.value.value?.probes ?? []).filter(({ ok }) => !ok).map(({ name }) => name.slice(0, 40))
  const odd = findings.filter(({ isFine }) => isFine === false).map(({ title }) => title.toLowerCase())
  const attention = new Set([...failing, ...odd])
  return attention.size === 0 ? (
    <p class="good headline">All is well.</p>
  ) : (
    <p class="odd headline">Needs attention: {[...attention].join(', ')}.</p>
  )
}
