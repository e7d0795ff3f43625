import type { Socket } from 'node:net'
import pg, { type ClientBase, type Connection, type Submittable } from 'pg'
import { MAX_VALUES, Outgoing } from './messages.js'

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
  private startedAt = NaN
  private cell: string | null = null
  private resolve!: (cell: string | null) => void
  private reject!: (error: Error) => void

  /**
   * @param name of the prepared statement, read by pg; empty: unnamed
   * @param isRow whether to return all columns of the row, as a JSON list that contains the list of their texts
   */
  constructor(
    readonly text: string,
    private readonly values: readonly (string | null)[],
    readonly name: string,
    private readonly isRow = false,
  ) {
    super({ text })
    this.answer = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
  }

  /** @returns an error instead of sending the query, as pg expects */
  submit(connection: Connection): Error | undefined {
    if (this.values.length > MAX_VALUES) return new RangeError(`a statement takes at most ${MAX_VALUES} values`)
    const wire = connection as unknown as Wire
    const { name, text } = this
    this.startedAt = performance.now()
    const known = wire.parsedStatements[name] ?? wire.submittedNamedStatements[name]
    if (name === '' || known === undefined) {
      outgoing.prepare(name, text)
      if (name !== '') {
        wire.submittedNamedStatements[name] = text
        prepared.set(connection, (prepared.get(connection) ?? 0) + 1)
      }
    }
    outgoing.run(name, this.values)
    outgoing.sync()
    wire.stream.write(outgoing.take())
    return undefined
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    this.cell = this.isRow ? JSON.stringify([fields]) : (fields[0] ?? null)
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
  handleCommandComplete(): void {}
  handleEmptyQuery(): void {}
  handlePortalSuspended(): void {}
}
