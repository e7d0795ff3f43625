import type { Socket } from 'node:net'
import pg, { type ClientBase, type Connection, type Submittable } from 'pg'
import { MAX_VALUES, Outgoing } from './messages.js'
import type { Writer } from './writer.js'

/** Methods of pg's connection that its types omit. */
interface Wire {
  readonly stream: Socket
  readonly parsedStatements: Record<string, string | undefined>
  readonly submittedNamedStatements: Record<string, string | undefined>
}

/** Shared by all connections, because messages are sent as soon as they are written. */
const outgoing = new Outgoing()

/** Number of prepared statements by connection. */
const prepared = new WeakMap<object, number>()
const MAX_PREPARED = 500

/** When the last query of a connection ended. */
const endedAt = new WeakMap<object, number>()

/** Without what this one does itself. */
const PgQuery = pg.Query as unknown as new (config: { readonly text: string }) => object

/** Returns whether a connection holds so many prepared statements that it should be replaced. */
export function isFull(client: ClientBase): boolean {
  const { connection } = client as ClientBase & { readonly connection: object }
  return (prepared.get(connection) ?? 0) > MAX_PREPARED
}

/**
 * A query that returns one text: the only column of the only row. Unlike pg's own query it requests no row description,
 * parses no types and builds no row objects. Resolves when the server is ready again, i.e. after the commit. It is one of
 * pg's queries, because pg pipelines no others.
 * @see PostgreSQL manual, "Extended Query" in the message flow of the frontend/backend protocol
 */
export class CellQuery extends PgQuery implements Submittable {
  readonly answer: Promise<string | null>
  /** Time from sending, or from the end of the one before it, to the result or error, in milliseconds; NaN before. */
  ms = NaN
  /** Of the statement that is being parsed, for pg. */
  name: string
  private startedAt = NaN
  private cell: string | null = null
  /** Whether the answers to come are those of the statement that tells who writes. */
  private isAhead: boolean
  private resolve!: (cell: string | null) => void
  private reject!: (error: Error) => void

  /**
   * @param named name of the prepared statement; empty: unnamed
   * @param isRow whether to return all columns of the row, as a JSON list that contains the list of their texts
   * @param writer told first, in the same transaction and the same round trip
   */
  constructor(
    readonly text: string,
    private readonly values: readonly (string | null)[],
    private readonly named: string,
    private readonly isRow = false,
    private readonly writer?: Writer,
  ) {
    super({ text })
    this.isAhead = writer !== undefined
    this.name = writer ? '' : named
    this.answer = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
  }

  /** @returns an error instead of sending the query, as pg expects */
  submit(connection: Connection): Error | undefined {
    if (this.values.length > MAX_VALUES) return new RangeError(`a statement takes at most ${MAX_VALUES} values`)
    const wire = connection as unknown as Wire
    const { named, text, writer } = this
    this.startedAt = performance.now()
    if (writer) {
      outgoing.prepare('', writer.statement.text)
      outgoing.run('', writer.values)
    }
    const known = wire.parsedStatements[named] ?? wire.submittedNamedStatements[named]
    if (named === '' || known === undefined) {
      outgoing.prepare(named, text)
      if (named !== '') {
        wire.submittedNamedStatements[named] = text
        prepared.set(connection, (prepared.get(connection) ?? 0) + 1)
      }
    }
    outgoing.run(named, this.values)
    outgoing.sync()
    wire.stream.write(outgoing.take())
    return undefined
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    if (!this.isAhead) this.cell = this.isRow ? JSON.stringify([fields]) : (fields[0] ?? null)
  }

  handleCommandComplete(): void {
    this.isAhead = false
    this.name = this.named
  }

  handleError(error: Error, connection: object): void {
    this.end(connection)
    this.reject(error)
  }

  handleReadyForQuery(connection: object): void {
    this.end(connection)
    this.resolve(this.cell)
  }

  private end(connection: object): void {
    const now = performance.now()
    this.ms = now - Math.max(this.startedAt, endedAt.get(connection) ?? 0)
    endedAt.set(connection, now)
  }

  handleRowDescription(): void {}
  handleEmptyQuery(): void {}
  handlePortalSuspended(): void {}
}
