import { createRequire } from 'node:module'
import type * as Library from 'prom-client'
import { alone, type Siblings } from '../processes/siblings.js'
import { createDurations, type Durations } from './timing.js'

/** Imports parts of the library, because the whole loads ten times as many files. */
const require = createRequire(import.meta.url)
export const Counter = require('prom-client/lib/counter.js') as typeof Library.Counter
const Gauge = require('prom-client/lib/gauge.js') as typeof Library.Gauge
export const Histogram = require('prom-client/lib/histogram.js') as typeof Library.Histogram
const Registry = require('prom-client/lib/registry.js') as typeof Library.Registry

type Counter = Library.Counter
type Gauge = Library.Gauge
type Histogram = Library.Histogram

const { aggregate } = require('prom-client/lib/cluster.js') as typeof Library.AggregatorRegistry

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
  const complete = (): Library.Registry => {
    if (!isComplete)
      (require('prom-client/lib/defaultMetrics.js') as typeof Library.collectDefaultMetrics)({ register: registry })
    isComplete = true
    return registry
  }
  siblings.answer('metrics', () => complete().getMetricsAsJSON())
  const named = (name: string, help: string, labels: readonly string[]) => ({
    name: `rowhouse_${name}`,
    help,
    labelNames: labels,
    registers: [registry],
  })
  return {
    registry,
    async scrape() {
      if (siblings.count === 1) return complete().metrics()
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
