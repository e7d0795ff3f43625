import type { Compiled } from '../compile/compile.js'
import type { Session } from '../session.js'
import type { Bindings } from '../sql/bind.js'
import type { Reader } from './disclosure.js'
import type { Dialect } from './errors.js'
import type { RowBatches } from './row-messages.js'
import type { Observer } from './observe.js'
import type { Origin } from './slow-queries.js'
import type { Position } from './wal-position.js'
import type { Writer } from './writer.js'

/** How to run a request. */
export interface Execution extends Origin {
  readonly bindings: Bindings
  /** Keeps the statement prepared on its connection, for repeated requests. */
  readonly prepare: boolean
  readonly dialect: Dialect
  /** Maximum duration of a statement, in milliseconds. */
  readonly timeoutMs: number
  readonly reader: Reader
  /** Present if the database may ask who writes. */
  readonly writer?: Writer | undefined
  /** SQL comment to append to each statement. */
  readonly tags?: string | undefined
  readonly observer?: Observer | undefined
  /** Called with the duration of each statement, in milliseconds. */
  readonly onTime?: (ms: number) => void
}

/** A caller that waits for its request. */
export interface Waiter {
  readonly session: Session
  readonly signal: AbortSignal
}

/** A compiled request with its values, for one caller. */
export interface Job {
  readonly plan: Compiled
  /** Values of the first statement. They are bound before a connection is taken, so an invalid value costs none. */
  readonly values: readonly (string | null)[]
  readonly execution: Execution
  /** Whose request it is. Its signal is made when it is read, which quick requests never do. */
  readonly call: Waiter
  /** Present for a read that may run on a standby. `after` is a position that the standby must have replayed. */
  readonly standby?: { readonly after?: Position | undefined } | undefined
  /** Whether no statement of its operation follows it. */
  readonly isLast?: true | undefined
  /** Whether it is known to be quick and may use a connection reserved for quick requests. */
  readonly isQuick?: boolean
}

/** JSON text as PostgreSQL produced it, or its bytes in UTF-8. */
export type Cell = string | Buffer

/**
 * A path for requests to PostgreSQL. The plain lane handles everything. Other lanes wrap it and delegate what they do
 * not handle, so each of them can be left out.
 */
export interface Lane {
  /** Runs a read that returns one text. */
  cell(job: Job): Promise<Cell>
  /** Runs a read that may return many rows. */
  rows(job: Job): Promise<RowBatches>
  /** Runs a write atomically and returns its one text. */
  write(job: Job): Promise<Cell>
}
