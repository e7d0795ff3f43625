import type * as Library from 'prom-client'
// Parts of the library, because the whole loads ten times as many files.
import cluster from 'prom-client/lib/cluster.js'
import counter from 'prom-client/lib/counter.js'
import gauge from 'prom-client/lib/gauge.js'
import histogram from 'prom-client/lib/histogram.js'
import register from 'prom-client/lib/registry.js'
import { alone, type Siblings } from '../processes/siblings.js'
import { createDurations, type Durations } from './timing.js'

export const Counter = counter as typeof Library.Counter
const Gauge = gauge as typeof Library.Gauge
export const Histogram = histogram as typeof Library.Histogram
const Registry = register as typeof Library.Registry
const { aggregate } = cluster as typeof Library.AggregatorRegistry

type Counter = Library.Counter
type Gauge = Library.Gauge
type Histogram = Library.Histogram

/** How the values of several processes become one. Counters and histograms are added. */
export type Across = 'sum' | 'max' | 'min' | 'average' | 'first'

/** Sets the values of a gauge just before they are read. */
export type Collect = (gauge: Gauge) => Promise<void> | void

export const createGauge = (options: Library.GaugeConfiguration<string>, collect?: Collect): Gauge =>
  new Gauge({
    ...options,
    ...(collect && {
      collect() {
        return collect(this)
      },
    }),
  })

/** The metrics registry of a server. Names get the prefix `rowhouse_`; process metrics keep their Prometheus names. */
export interface Metrics {
  readonly registry: Library.Registry
  /** Returns the metrics of all processes in the text format of Prometheus. */
  scrape(): Promise<string>
  /** Returns the same counter for the same name. */
  counter(name: string, help: string, labels?: readonly string[]): Counter
  /**
   * @param collect sets the value just before it is read
   * @param across how the values of several processes become one; defaults to `sum`
   */
  gauge(name: string, help: string, labels?: readonly string[], collect?: Collect, across?: Across): Gauge
  /** @param buckets upper bounds in the unit of the name; defaults to those of Prometheus (seconds) */
  histogram(name: string, help: string, labels?: readonly string[], buckets?: number[]): Histogram
  /** @param buckets upper bounds in seconds */
  durations(name: string, help: string, labels: readonly string[], buckets: readonly number[]): Durations
}

export function createMetrics(siblings: Siblings = alone()): Metrics {
  const registry = new Registry()
  let isComplete = false
  /** Adds memory, CPU time and the event loop of the process on first use, because their library loads slowly. */
  const complete = async (): Promise<Library.Registry> => {
    const { collectProcessMetrics } = await import('./process-metrics.js')
    if (!isComplete) collectProcessMetrics({ register: registry })
    isComplete = true
    return registry
  }
  siblings.answer('metrics', async () => (await complete()).getMetricsAsJSON())
  const named = (name: string, help: string, labels: readonly string[]) => ({
    name: `rowhouse_${name}`,
    help,
    labelNames: labels,
    registers: [registry],
  })
  return {
    registry,
    async scrape() {
      if (siblings.count === 1) return (await complete()).metrics()
      return aggregate((await siblings.ask('metrics')) as object[]).metrics()
    },
    counter: (name, help, labels = []) =>
      (registry.getSingleMetric(`rowhouse_${name}`) as Counter | undefined) ?? new Counter(named(name, help, labels)),
    gauge: (name, help, labels = [], collect, across = 'sum') =>
      createGauge({ ...named(name, help, labels), aggregator: across }, collect),
    histogram: (name, help, labels = [], buckets) =>
      new Histogram({ ...named(name, help, labels), ...(buckets && { buckets }) }),
    durations(name, help, labels, buckets) {
      const metric = createDurations(`rowhouse_${name}`, help, labels, buckets)
      registry.registerMetric(metric as unknown as Library.Metric)
      return metric
    },
  }
}
