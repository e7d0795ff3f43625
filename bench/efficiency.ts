import { areApart, valuesOf } from './ratios.js'
import type { Cell, Target } from './section.js'
import { median } from './statistics.js'

export const EFFICIENCY = 'efficiency'
/** CPU time of a request, of the server and its PostgreSQL together: the figure that systems are compared by. */
export const CPU = 'cpu'
/** Columns of the reads and of the insert of one row, before the others. */
export const CPU_COLUMNS = {
  [CPU]: 'CPU µs/request',
  server: 'server CPU µs/request',
  database: 'PostgreSQL CPU µs/request',
  [EFFICIENCY]: 'efficiency',
  load: 'load tool CPU µs/request',
}

/** What a scenario should come to. */
export interface Aims {
  readonly efficiency: number
  /** CPU time, over that of a server written by hand with Fastify, both with tokens. */
  readonly fastify: number
  /** How many times as much PostGraphile 5 takes, whose policies are our permissions. */
  readonly postgraphile: number
}

export const efficiencyTargets = ({ efficiency, fastify, postgraphile }: Aims): readonly Target[] => [
  { system: 'rowhouse', figure: EFFICIENCY, least: efficiency },
  { system: 'rowhouse with tokens', figure: CPU, against: 'fastify*', most: fastify },
  { system: 'rowhouse', figure: CPU, against: 'postgraphile 5* with policies', most: 1 / postgraphile },
]

/** The systems of a section that are compared. */
export interface Roles {
  /** Servers that answer the requests. */
  readonly servers: readonly string[]
  /** Bare Koa, which answers as many bytes. */
  readonly koa: string
  /** Runs the same statement. */
  readonly pgbench: string
}

/** A server that costs less than half of what an ideal one does has been measured wrong. */
const MOST_EFFICIENT = 2

/**
 * Adds two figures to the cells of servers whose CPU time is known: that of the server and its PostgreSQL together, and the
 * efficiency: the CPU time of PostgreSQL under pgbench and of bare Koa in the same round, over it. There is no efficiency
 * without one of these limits, where the rounds of one of them are too far apart, or where it would be above 2.
 */
export function withEfficiency(cells: readonly Cell[], { servers, koa, pgbench }: Roles): Cell[] {
  const isVoid = (system: string, figure: string) => areApart(valuesOf(cells, system, figure))
  const limits = { [pgbench]: 'database', [koa]: 'server' } as const
  const doubtful = Object.entries(limits).some(([system, part]) => isVoid(system, part))
  const measured = cells.map((cell) => {
    const { server, database } = cell.figures
    if (!servers.includes(cell.system) || server === undefined || database === undefined) return cell
    const cpu = server + database
    // In a window of a few requests no tick of the clock may pass.
    if (cpu === 0) return cell
    const limit = (system: string, part: 'server' | 'database') =>
      cells.find((other) => other.system === system && other.round === cell.round && other.void === undefined)?.figures[
        part
      ]
    const [statement, answer] = [limit(pgbench, 'database'), limit(koa, 'server')]
    const unknown = doubtful || statement === undefined || answer === undefined
    return {
      ...cell,
      figures: { ...cell.figures, [CPU]: cpu, ...(unknown ? {} : { efficiency: (statement + answer) / cpu }) },
    }
  })
  return measured.map((cell) => {
    const { efficiency, ...figures } = cell.figures
    if (efficiency === undefined) return cell
    const wrong =
      areApart(valuesOf(measured, cell.system, CPU)) ||
      median(valuesOf(measured, cell.system, EFFICIENCY)) > MOST_EFFICIENT
    return wrong ? { ...cell, figures } : cell
  })
}
