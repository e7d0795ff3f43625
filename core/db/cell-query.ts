import type { Socket } from 'node:net'
import type { ClientBase, Connection, Submittable } from 'pg'
import { MAX_VALUES, Outgoing } from './messages.js'

/** What pg's connection offers to a query; its own types leave it out. */
interface Wire {
  readonly stream: Socket
  readonly parsedStatements: Record<string, string | undefined>
  readonly submittedNamedStatements: Record<string, string | undefined>
}

/** Messages are sent as soon as they are written, so that all connections may share it. */
const outgoing = new Outgoing()

/** How many statements a connection keeps prepared. */
const prepared = new WeakMap<object, number>()
const MAX_PREPARED = 500

/** True when a connection keeps so many statements that it should make room for a fresh one. */
export function isFull(client: ClientBase): boolean {
  const { connection } = client as ClientBase & { readonly connection: object }
  return (prepared.get(connection) ?? 0) > MAX_PREPARED
}

/**
 * A query whose answer is one text: the only column of the only row. Unlike pg's own it asks for no description of the
 * row, reads no types and builds no row objects. Resolves when the server is ready again, that is after the commit.
 * @see PostgreSQL manual, "Extended Query" in the message flow of the frontend/backend protocol
 */
export class CellQuery implements Submittable {
  readonly text: string
  /** Of the prepared statement; pg reads it. Empty: unnamed. */
  readonly name: string
  readonly answer: Promise<string | null>
  private readonly values: readonly (string | null)[]
  /** From sending to the answer; NaN before. */
  ms = NaN
  private startedAt = 0
  private cell: string | null = null
  private resolve!: (cell: string | null) => void
  private reject!: (error: Error) => void

  constructor(text: string, values: readonly (string | null)[], name: string) {
    this.text = text
    this.values = values
    this.name = name
    this.answer = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
  }

  /** @returns what pg tells the query in place of sending it */
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
    this.cell = fields[0] ?? null
  }

  handleError(error: Error): void {
    this.reject(error)
  }

  handleReadyForQuery(): void {
    this.ms = performance.now() - this.startedAt
    this.resolve(this.cell)
  }

  handleRowDescription(): void {}
  handleCommandComplete(): void {}
  handleEmptyQuery(): void {}
  handlePortalSuspended(): void {}
}
