import type { Compiled } from '../compile/compile.js'
import type { Session } from '../session.js'
import type { Bindings } from '../sql/bind.js'
import type { Reader } from './disclosure.js'
import type { Dialect } from './errors.js'
import type { RowBatches } from './row-messages.js'

/** How a request runs. */
export interface Execution {
  readonly bindings: Bindings
  /** Keep the statement prepared on its connection: it has been asked for before. */
  readonly prepare: boolean
  readonly dialect: Dialect
  /** Longest statement. */
  readonly timeoutMs: number
  readonly reader: Reader
  /** Called with how long each statement took, in milliseconds. */
  readonly onTime?: (ms: number) => void
}

/** A compiled request with its values, for one caller. */
export interface Job {
  readonly plan: Compiled
  /** Of the first statement. They are bound before a connection is taken: a request with a wrong one costs none. */
  readonly values: readonly (string | null)[]
  readonly execution: Execution
  readonly session: Session
  readonly signal: AbortSignal
  /** It has proven to be quick, and may have a connection that is kept for such. */
  readonly isQuick?: boolean
}

/** JSON text as PostgreSQL made it. The bytes are in UTF-8. */
export type Cell = string | Buffer

/**
 * A way for requests to PostgreSQL and back. There is a plain one; others wrap it, and pass on what they cannot do
 * themselves, so that each of them can be left out.
 */
export interface Lane {
  /** Runs a read whose answer is one text. */
  cell(job: Job): Promise<Cell>
  /** Runs a read whose rows may be many. */
  rows(job: Job): Promise<RowBatches>
  /** Runs what may change something, all of it or nothing, and returns its one text. */
  write(job: Job): Promise<Cell>
}
