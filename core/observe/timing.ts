import { ignore, inSpan, isTracing, type Note, type Step } from './tracing.js'

/** Durations of the steps of a request by name, in milliseconds. */
export class Timing {
  private readonly steps = new Map<string, number>()

  add(step: string, ms: number): void {
    this.steps.set(step, (this.steps.get(step) ?? 0) + ms)
  }

  get hasSteps(): boolean {
    return this.steps.size > 0
  }

  /** Returns the value of a `Server-Timing` header. */
  toString(): string {
    return Array.from(this.steps, ([step, ms]) => `${step};dur=${ms.toFixed(2)}`).join(', ')
  }
}

/** Runs a step of a request, and records its duration if requested. */
export function timed<T>(timing: Timing | undefined, step: string, run: () => T): T {
  if (!timing) return run()
  const since = performance.now()
  const add = () => timing.add(step, performance.now() - since)
  const result = run()
  if (!(result instanceof Promise)) {
    add()
    return result
  }
  return result.finally(add) as T
}

/**
 * Runs a step of a request in a span. A step that returns no promise leaves none. Errors show their code only, because
 * their messages may quote values.
 * @param describe called only if the step is traced
 */
export function traced<T>(describe: () => Step, run: (note: Note) => T): T {
  return isTracing ? inSpan(describe(), run) : run(ignore)
}

/** A histogram of what each request does. The library's own joins and looks up all names for each observation. */
export interface Durations {
  /** @param labels their values, in the order of their names */
  observe(seconds: number, ...labels: readonly (string | number)[]): void
}

interface Series {
  readonly labels: Readonly<Record<string, string | number>>
  /** Observations by bucket; the last one has no bound. */
  readonly counts: number[]
  sum: number
}

export function createDurations(name: string, help: string, names: readonly string[], bounds: readonly number[]) {
  const all = new Map<string, Series>()

  function add(key: string, labels: readonly (string | number)[]): Series {
    const series = {
      labels: Object.fromEntries(names.map((label, i) => [label, labels[i] ?? ''])),
      counts: [...bounds, Infinity].map(() => 0),
      sum: 0,
    }
    all.set(key, series)
    return series
  }

  function valuesOf({ labels, counts, sum }: Series) {
    let count = 0
    const buckets = [...bounds, '+Inf'].map((le, i) => {
      return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: (count += counts[i]!) }
    })
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: sum },
      { metricName: `${name}_count`, labels, value: count },
    ]
  }

  const observe: Durations['observe'] = (seconds, ...labels) => {
    const key = labels.join('\n')
    const series = all.get(key) ?? add(key, labels)
    let bucket = 0
    while (bucket < bounds.length && seconds > bounds[bucket]!) bucket++
    series.counts[bucket]!++
    series.sum += seconds
  }
  /** What the library reads. */
  const get = async () => ({
    name,
    help,
    type: 'histogram',
    aggregator: 'sum',
    values: [...all.values()].flatMap(valuesOf),
  })
  return { name, observe, get }
}
