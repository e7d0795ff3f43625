import type { DatabaseConfig } from './config.js'

/** Maximum numbers of connections of one process by use. */
export interface PoolSizes {
  readonly main: number
  readonly streams: number
  /** Additional connections for streams that turn out to be small, so that slow readers do not delay them. */
  readonly smallStreams: number
  readonly admin: number
  readonly pipelines: number
  readonly sharedCommits: number
  readonly listen: number
  /** For checks of standbys. */
  readonly checks: number
}

const leastOf = ({ readUrls }: Pick<DatabaseConfig, 'readUrls'>): PoolSizes => {
  const checks = readUrls.length > 0 ? 1 : 0
  return { main: 2, streams: 1, smallStreams: 1, admin: 2, pipelines: 0, sharedCommits: 0, listen: 1, checks }
}
/** Fits a server of PostgreSQL with its default of 100 connections. */
const DEFAULT_BUDGET = 80

export const sumOf = (sizes: PoolSizes): number => Object.values(sizes).reduce((sum: number, size) => sum + size, 0)

/** Returns the maximum number of connections of several processes together. */
export const budgetOf = ({ maxConnections = DEFAULT_BUDGET }: Pick<DatabaseConfig, 'maxConnections'>): number =>
  maxConnections

/** Returns the number of processes for which the budget suffices. */
export const processesWithin = (config: Pick<DatabaseConfig, 'maxConnections' | 'readUrls'>): number =>
  Math.floor(budgetOf(config) / sumOf(leastOf(config)))

/**
 * Returns the sizes for one of several processes. Shrinks all pools in proportion where `maxConnections` is less than
 * they would need together.
 * @throws Error when that is too few
 */
export function poolSizes(config: DatabaseConfig, processes = 1): PoolSizes {
  const maxConnections = processes === 1 ? (config.maxConnections ?? Infinity) : budgetOf(config)
  const isShared = config.directUrl === undefined
  const lowest = leastOf(config)
  const wanted: PoolSizes = {
    main: config.poolSize,
    streams: config.streamPoolSize,
    smallStreams: 4,
    admin: 4,
    // Behind a connection pooler requests share no connections.
    pipelines: isShared ? config.pipelines : 0,
    sharedCommits: isShared ? config.sharedCommits : 0,
    listen: 1,
    checks: lowest.checks,
  }
  const most = Math.floor(maxConnections / processes)
  const surplus = sumOf(wanted) - most
  if (surplus <= 0) return wanted
  const least = sumOf(lowest)
  if (most < least) {
    const needed = `${processes} ${processes === 1 ? 'process needs' : 'processes need'} at least ${processes * least}`
    throw new Error(`database.maxConnections is ${maxConnections}, but ${needed}`)
  }
  const spare = Object.entries(wanted).map(([use, size]) => [use, Math.max(0, size - lowest[use as keyof PoolSizes])])
  const allSpare = spare.reduce((sum, [, size]) => sum + Number(size), 0)
  const part = Math.max(0, 1 - surplus / allSpare)
  const sizes = Object.fromEntries(
    spare.map(([use, size]) => [use, lowest[use as keyof PoolSizes] + Math.floor(Number(size) * part)]),
  ) as unknown as PoolSizes
  // What rounding left.
  return { ...sizes, main: sizes.main + Math.max(0, most - sumOf(sizes)) }
}
