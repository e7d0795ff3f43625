import { once } from 'node:events'
import type { Socket } from 'node:net'
import type { ClientBase, Connection, Submittable } from 'pg'

/** Members of pg's connection that its types omit. */
interface Wire extends Connection {
  readonly stream: Socket
  sendCopyFromChunk(chunk: Buffer): void
  endCopyFrom(): void
  sendCopyFail(reason: string): void
}

/** Sends data to `COPY ... FROM stdin`. */
export class CopyIn implements Submittable {
  /** Resolves when PostgreSQL expects data. */
  readonly started: Promise<void>
  private readonly ended: Promise<void>
  private wire: Wire | undefined
  private error: Error | undefined
  private isOver = false
  private begin!: () => void
  private finish!: () => void
  private fail!: (error: Error) => void

  constructor(
    client: ClientBase,
    private readonly text: string,
  ) {
    this.ended = new Promise((resolve, reject) => {
      this.finish = resolve
      this.fail = reject
    })
    const begun = new Promise<void>((resolve) => (this.begin = resolve))
    this.started = Promise.race([begun, this.ended])
    // Each is awaited by another method.
    for (const each of [this.started, this.ended]) each.catch(() => {})
    client.query(this)
  }

  /** Waits while the socket is full. @throws DatabaseError */
  async write(data: Buffer): Promise<void> {
    if (this.error) throw this.error
    const { wire } = this
    wire?.sendCopyFromChunk(data)
    if (wire?.stream.writableNeedDrain) await Promise.race([once(wire.stream, 'drain'), this.ended])
  }

  /** @throws DatabaseError */
  async end(): Promise<void> {
    if (!this.error) this.wire?.endCopyFrom()
    await this.ended
  }

  /** Ends a copy whose data do not end, so that the connection can be used again. */
  async abandon(): Promise<void> {
    if (this.isOver) return
    this.wire?.sendCopyFail('the data have no end')
    await this.ended.catch(() => {})
  }

  submit(connection: Connection): void {
    this.wire = connection as Wire
    this.wire.query(this.text)
  }

  handleCopyInResponse(): void {
    this.begin()
  }

  handleError(error: Error): void {
    this.error = error
    this.isOver = true
    this.fail(error)
  }

  handleReadyForQuery(): void {
    this.isOver = true
    this.finish()
  }

  handleRowDescription(): void {}
  handleDataRow(): void {}
  handleCommandComplete(): void {}
  handleEmptyQuery(): void {}
  handlePortalSuspended(): void {}
}
