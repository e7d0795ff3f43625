import { valuesOf } from './ratios.js'
import type { Cell, Target } from './section.js'

/** Columns of the reads and of the insert of one row, before and behind the others. */
export const EFFICIENCY = 'efficiency'
export const EFFICIENCY_COLUMN = { [EFFICIENCY]: 'efficiency' }
export const PER_CPU_COLUMN = { perCpu: 'requests per CPU second' }

const LEAST_EFFICIENCY = 0.9

/** @param times how many times as many requests per CPU second as PostGraphile 5, whose policies are our permissions */
export const efficiencyTargets = (system: string, times: number): readonly Target[] => [
  { system, figure: EFFICIENCY, least: LEAST_EFFICIENCY },
  { system, figure: 'perCpu', against: 'postgraphile 5* with policies', least: times },
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

/**
 * Adds two figures to the cells of servers whose CPU time is known: requests per CPU second, of the server and its PostgreSQL
 * together, and the efficiency: the CPU time of PostgreSQL under pgbench and of bare Koa in the same round, over that of the
 * server and its PostgreSQL. Without one of these limits there is no efficiency. Nor is there either figure of a system whose
 * rounds differ more than `MOST_APART` times: what ran beside them was measured, or the clock has too few ticks.
 */
export function withEfficiency(cells: readonly Cell[], { servers, koa, pgbench }: Roles): Cell[] {
  return withoutScattered(
    cells.map((cell) => {
      const { server, database } = cell.figures
      if (!servers.includes(cell.system) || server === undefined || database === undefined) return cell
      const cpu = server + database
      // In a window of a few requests no tick of the clock may pass.
      if (cpu === 0) return cell
      const limit = (system: string, part: 'server' | 'database') =>
        cells.find((other) => other.system === system && other.round === cell.round && other.void === undefined)
          ?.figures[part]
      const [statement, answer] = [limit(pgbench, 'database'), limit(koa, 'server')]
      const efficiency = statement === undefined || answer === undefined ? undefined : (statement + answer) / cpu
      return { ...cell, figures: { ...cell.figures, efficiency, perCpu: 1e6 / cpu } }
    }),
  )
}

const MOST_APART = 3

function withoutScattered(cells: readonly Cell[]): Cell[] {
  const isScattered = (system: string, at: number | undefined) =>
    [EFFICIENCY, 'perCpu'].some((figure) => {
      const values = valuesOf(cells, system, figure, at)
      return Math.max(...values) > MOST_APART * Math.min(...values)
    })
  return cells.map((cell) => {
    const { efficiency: _, perCpu, ...figures } = cell.figures
    if (perCpu === undefined) return cell
    return isScattered(cell.system, cell.at) ? { ...cell, figures } : cell
  })
}
