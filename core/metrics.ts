import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'

/** One registry per server. Names are prefixed `rowhouse_`; those of the process keep Prometheus' own names. */
export interface Metrics {
  readonly registry: Registry
  counter(name: string, help: string, labels?: readonly string[]): Counter
  /** @param collect sets it just before it is read */
  gauge(name: string, help: string, labels?: readonly string[], collect?: (gauge: Gauge) => void): Gauge
  /** @param buckets upper bounds, in the unit that the name ends in; Prometheus' defaults (seconds) when absent */
  histogram(name: string, help: string, labels?: readonly string[], buckets?: number[]): Histogram
}

export function createMetrics(): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const named = (name: string, help: string, labels: readonly string[]) => ({
    name: `rowhouse_${name}`,
    help,
    labelNames: labels,
    registers: [registry],
  })
  return {
    registry,
    counter: (name, help, labels = []) => new Counter(named(name, help, labels)),
    gauge: (name, help, labels = [], collect) =>
      new Gauge({
        ...named(name, help, labels),
        ...(collect && {
          collect() {
            collect(this)
          },
        }),
      }),
    histogram: (name, help, labels = [], buckets) =>
      new Histogram({ ...named(name, help, labels), ...(buckets && { buckets }) }),
  }
}
