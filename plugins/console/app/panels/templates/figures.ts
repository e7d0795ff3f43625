import { query, send } from '../../api.js'

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
export interface Slow {
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
  const samples = samplesOf(await metrics.text()).filter(({ labels }) => labels['template'] === name)
  const sum = (suffix: string, outcome?: string) =>
    samples
      .filter(
        (each) => each.metric === METRIC + suffix && (outcome ?? each.labels['outcome']) === each.labels['outcome'],
      )
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

interface Sample {
  readonly metric: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** Reads the samples of this metric from the text format of Prometheus. */
function samplesOf(text: string): readonly Sample[] {
  return text.split('\n').flatMap((line) => {
    const [, metric, labels = '', value] = /^(\w+)\{(.*)\} (\S+)$/.exec(line) ?? []
    return metric?.startsWith(METRIC) ? [{ metric, labels: labelsOf(labels), value: Number(value) }] : []
  })
}

function labelsOf(text: string): Readonly<Record<string, string>> {
  const pairs = [...text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)]
  return Object.fromEntries(pairs.map(([, name = '', value = '']) => [name, unescaped(value)]))
}

const unescaped = (value: string) => value.replaceAll(/\\(.)/g, (_, sign: string) => (sign === 'n' ? '\n' : sign))
