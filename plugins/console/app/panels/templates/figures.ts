import { query, send } from '../../api.js'
import { parseMetrics } from '../../metrics-text.js'

export interface Figures {
  readonly count: number
  /** Calls that the server refused with 4xx. */
  readonly refused: number
  /** Calls that ended with 5xx. */
  readonly failed: number
  /** Mean time of the calls, in milliseconds; undefined without calls. */
  readonly meanMs: number | undefined
  readonly slow: readonly Slow[]
}

/** Slow runs of one statement for one role. */
interface Slow {
  readonly id: string
  readonly role: string
  readonly name?: string
  readonly count: number
  readonly mean_ms: number
  readonly max_ms: number
  readonly last_seen: string
}

/** Reads the figures of a template from the metrics and the slow statements of the server. */
export async function readFigures(name: string, signal: AbortSignal): Promise<Figures> {
  const [metrics, { queries }] = await Promise.all([
    send('/metrics', { as: null, signal }),
    query<{ readonly queries: readonly Slow[] }>('slow_queries', {}, { as: null, signal }),
  ])
  const samples = parseMetrics(await metrics.text()).filter(({ labels }) => labels['template'] === name)
  const sum = (suffix: string, outcome?: string) =>
    samples
      .filter((each) => each.name === METRIC + suffix && (outcome ?? each.labels['outcome']) === each.labels['outcome'])
      .reduce((all, { value }) => all + value, 0)
  const count = sum('count')
  return {
    count,
    refused: sum('count', 'refused'),
    failed: sum('count', 'failed'),
    meanMs: count === 0 ? undefined : (1000 * sum('sum')) / count,
    slow: queries.filter((each) => each.name === name),
  }
}

const METRIC = 'rowhouse_template_duration_seconds_'
