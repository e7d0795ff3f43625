import { Plots } from './plots.js'
import type { Finding } from './findings.js'
import type { Point } from './history.js'
import { readiness } from './watch.js'

/** The figures of now as tiles, the probes, and the plots of the last minutes. */
export function Overview({
  points,
  findings,
  isStale,
}: {
  readonly points: readonly Point[]
  readonly findings: readonly Finding[]
  /** Whether the figures are those of before. */
  readonly isStale: boolean
}) {
  if (findings.length === 0) return <p class="wait">Reading the first figures …</p>
  return (
    <div class="body">
      <ul class="tiles" aria-label="Figures of now">
        {findings.map((finding) => (
          <Tile key={finding.title} {...finding} isStale={isStale} />
        ))}
      </ul>
      <Probes />
      <Plots points={points} />
      <p class="soft">
        The last ten minutes at most, read every two seconds while this page is visible. Rates and latencies are those
        of ten seconds, without requests for <code>/metrics</code> and probes.
      </p>
    </div>
  )
}

function Tile({ title, figure, words, isFine, isStale }: Finding & { readonly isStale: boolean }) {
  return (
    <li class={isFine === false ? 'tile attention' : 'tile'}>
      <header>
        <h2>{title}</h2>
        <State isFine={isFine} isStale={isStale} />
      </header>
      <p class="figure">{figure}</p>
      <p class="words">{words}</p>
    </li>
  )
}

function State({ isFine, isStale }: Pick<Finding, 'isFine'> & { readonly isStale: boolean }) {
  if (isStale || isFine === undefined) return <span class="soft">{isStale ? 'before' : 'not known'}</span>
  return <span class={isFine ? 'good' : 'odd'}>{isFine ? 'ok' : 'attention'}</span>
}

function Probes() {
  const { value, failure } = readiness.value
  if (!value || failure !== undefined) return null
  const { status, probes } = value
  return (
    <section class="probes" aria-label="Probes">
      <h2>
        <code>/readyz</code>: <span class={status === 'ready' ? 'good' : 'bad'}>{status}</span>
      </h2>
      <ul>
        {(probes ?? []).map(({ name, ok, detail }) => (
          <li key={name}>
            <bdi class="mono">{name}</bdi>{' '}
            <span class={ok ? (detail === undefined ? 'good' : 'odd') : 'bad'}>{ok ? 'ok' : 'failing'}</span>
            {detail !== undefined && <bdi class="soft">: {reasonOf(name, detail)}</bdi>}
          </li>
        ))}
      </ul>
      {!probes && <p class="soft">The server names its probes when it can tell who asks.</p>}
    </section>
  )
}

/** Leaves out what stands beside it: `probe "database" failed in "health": connection refused`. */
const reasonOf = (name: string, detail: string): string =>
  detail
    .replace(`probe "${name}" failed in "health": `, '')
    .replace(`probe "${name}" did not finish "health"`, 'no answer')
