import { callOf, type MessageExchange, ServiceError, serviceError, type Upgrade } from 'rowhouse'
import { isObject, type Json, type JsonObject } from 'rowhouse/plan'
import type { LiveService, Subscription } from 'rowhouse/plugins/live'
import type { WebSocket } from 'ws'
import { textOf } from '../execute.js'
import type { Dialect } from '../plan/names.js'
import { failed, type Outcome, type Run } from '../run.js'
import { Outbox } from './outbox.js'
import { type Protocol, readMessage } from './protocol.js'

/** What all connections share. */
export interface Serving {
  readonly run: Run
  readonly live: () => LiveService | undefined
}

/** Operations of a connection at the same time. */
const MAX_OPERATIONS = 100
/** Bytes that a client may send before it says who it is. */
const MAX_INIT_BYTES = 64 * 1024
/** Longer messages are read in turns with the bodies of other callers. */
const SHORT = 4 * 1024
/** Beats without a sign of the client, after which it is gone. */
const MAX_SILENT = 2
/** How long operations may take to end before the connection is closed, in milliseconds. */
const END_MS = 10_000
/** How long the client may take to close it then, in milliseconds. */
const CLOSE_MS = 2_000
const MAX_TIMER_MS = 2 ** 31 - 1

interface Operation {
  readonly exchange: MessageExchange
  subscription?: Subscription
  isOver: boolean
}

/** A client on a WebSocket. */
export class Connection {
  private readonly operations = new Map<string, Operation>()
  private readonly outbox: Outbox
  private readonly timers: NodeJS.Timeout[] = []
  private readonly queue: string[] = []
  private isTaking = false
  private state: 'new' | 'asked' | 'open' | 'ending' = 'new'
  private opening: Promise<void> | undefined
  private ends: (() => void) | undefined
  private silent = 0
  /** Bytes of the message that is being received. */
  private received = 0

  constructor(
    private readonly socket: WebSocket,
    private readonly protocol: Protocol,
    private readonly upgrade: Upgrade,
    private readonly dialect: Dialect,
    private readonly serving: Serving,
  ) {
    const alive = (): void => void (this.silent = 0)
    this.outbox = new Outbox(socket, alive)
    const { limits } = upgrade.state
    this.after(limits.headersTimeoutMs, () => {
      if (this.state === 'new') this.close(4408, 'Connection initialisation timeout')
    })
    // Before the message is read.
    upgrade.socket.prependListener('data', (chunk: Buffer) => this.receive(chunk.length))
    socket.on('pong', alive)
    socket.on('ping', (data: Buffer) => void (socket.bufferedAmount === 0 && socket.pong(data)))
    socket.on('error', () => socket.terminate())
    socket.on('message', (data: Buffer, isBinary: boolean) => {
      alive()
      this.receive(-this.received)
      if (isBinary) return this.close(4400, 'a message is text')
      this.queue.push(data.toString())
      void this.take()
    })
    socket.on('close', () => {
      for (const timer of this.timers) clearTimeout(timer)
      this.receive(-this.received)
      for (const [id, operation] of this.operations) this.over(id, operation, false)
    })
  }

  /** Checks whether the client is there. */
  beat(): void {
    if (++this.silent > MAX_SILENT) return this.socket.terminate()
    if (this.socket.readyState !== this.socket.OPEN || this.socket.isPaused) return
    this.socket.ping()
    if (this.protocol.beat !== undefined && this.state === 'open') this.outbox.send(this.protocol.beat)
  }

  /** Ends the connection when its queries and mutations have ended. Its client connects again. */
  end(code: number, reason: string): void {
    if (this.ends) return
    this.state = 'ending'
    this.ends = () => {
      if ([...this.operations.values()].every(({ subscription }) => subscription)) this.close(code, reason)
    }
    this.after(END_MS, () => this.close(code, reason))
    this.ends()
  }

  private close(code: number, reason: string): void {
    if (this.socket.readyState !== this.socket.OPEN) return
    // The protocol allows 123 bytes.
    this.socket.close(
      code,
      Buffer.from(reason)
        .subarray(0, 120)
        .toString()
        .replace(/\uFFFD+$/, ''),
    )
    this.after(CLOSE_MS, () => this.socket.terminate())
  }

  private after(ms: number, run: () => void): void {
    this.timers.push(setTimeout(run, Math.min(ms, MAX_TIMER_MS)).unref())
  }

  /** Counts what is received of a message, as of the body of a request. */
  private receive(bytes: number): void {
    this.received += bytes
    const { session, held } = this.upgrade.state
    if (!session) {
      if (this.received > MAX_INIT_BYTES) this.socket.terminate()
      return
    }
    try {
      held.receive(session, bytes, this.received)
    } catch (error) {
      this.close(1013, error instanceof ServiceError ? error.message : '')
    }
  }

  private async take(): Promise<void> {
    if (this.isTaking) return
    this.isTaking = true
    for (let text = this.queue.shift(); text !== undefined; text = this.queue.shift()) {
      const { session, held } = this.upgrade.state
      if (this.opening && this.protocol.startsEarly) await this.first(this.opening)
      if (session && text.length > SHORT) await this.first(held.round(session))
      if (this.socket.readyState === this.socket.OPEN) this.handle(text)
    }
    this.isTaking = false
  }

  /** Hears no more messages until something has happened. */
  private async first(event: Promise<void>): Promise<void> {
    this.socket.pause()
    await event
    this.socket.resume()
  }

  private handle(text: string): void {
    const asked = readMessage(text, this.protocol)
    if (typeof asked === 'string') return this.close(4400, asked)
    switch (asked.kind) {
      case 'init':
        if (this.state !== 'new') return this.close(4429, 'Too many initialisation requests')
        this.state = 'asked'
        this.opening = this.open(asked.payload).finally(() => (this.opening = undefined))
        return
      case 'start':
        if (this.state === 'ending') return
        if (this.state !== 'open') return this.close(4401, 'Unauthorized')
        return this.start(asked.id, asked.payload)
      case 'stop': {
        const operation = this.operations.get(asked.id)
        if (operation) this.over(asked.id, operation, operation.subscription !== undefined)
        return
      }
      case 'ping':
        return this.outbox.send('{"type":"pong"}')
      case 'pong':
        return
      case 'end':
        return this.close(1000, '')
    }
  }

  private async open(payload: JsonObject): Promise<void> {
    const { headers, ...flat } = payload
    const given = isObject(headers) ? Object.assign(flat, headers) : flat
    try {
      const { expiresAt } = await this.upgrade.identify(given)
      // The session did not exist yet, so the bytes so far are not in its account.
      this.received = 0
      if (expiresAt !== undefined) this.after(expiresAt - Date.now(), () => this.end(4403, 'expired'))
    } catch (error) {
      return this.refuse(error)
    }
    if (this.socket.readyState !== this.socket.OPEN || this.state !== 'asked') return
    this.state = 'open'
    this.outbox.send('{"type":"connection_ack"}')
    if (this.protocol.beat !== undefined) this.outbox.send(this.protocol.beat)
  }

  private refuse(error: unknown): void {
    const known = error instanceof ServiceError ? error : undefined
    if (!known) this.upgrade.state.log.error({ err: error }, 'a connection failed')
    const { status = 500, message = 'internal error', code } = known ?? {}
    this.upgrade.state.failed(code ?? 'unexpected')
    if (this.protocol.explainsRefusal) {
      this.outbox.send(JSON.stringify({ type: 'connection_error', payload: { message, extensions: { code } } }))
    }
    this.close(REFUSALS[status] ?? 1013, message)
  }

  private start(id: string, payload: Json): void {
    const same = this.operations.get(id)
    if (same && this.protocol.refusesTwice) return this.close(4409, `Subscriber for ${id} already exists`)
    if (same) this.over(id, same, true)
    let exchange: MessageExchange | undefined
    try {
      if (this.operations.size >= MAX_OPERATIONS) throw tooMany()
      exchange = this.upgrade.begin()
    } catch (error) {
      const asking = { state: this.upgrade.state, get: () => '', set() {} }
      return this.sendErrors(id, failed(asking, error, this.dialect, '$').body)
    }
    const operation: Operation = { exchange, isOver: false }
    this.operations.set(id, operation)
    void this.answer(id, operation, payload)
  }

  private async answer(id: string, operation: Operation, payload: Json): Promise<void> {
    const { exchange } = operation
    const fail = (error: unknown): Outcome => failed(exchange, error, this.dialect, '$')
    const options = { subscribes: true, streams: false }
    const outcome = await this.serving.run(exchange, this.dialect, payload, '$', options).catch(fail)
    if (operation.isOver) return
    if (!outcome.live) return this.sendResult(id, operation, outcome)
    try {
      await this.subscribe(id, operation, outcome.live)
    } catch (error) {
      await this.sendResult(id, operation, fail(error))
    }
  }

  private async subscribe(id: string, operation: Operation, live: NonNullable<Outcome['live']>): Promise<void> {
    const { exchange } = operation
    const next = (json: string) => this.message(id, this.protocol.result, json)
    const subscription = await this.serving.live()!.subscribe(callOf(exchange), () => live.read.lift(), {
      tell: (told) => {
        if (operation.isOver) return undefined
        if (told.kind === 'error') return this.outbox.sendNewest(operation, next(live.errorText(told.error)))
        const taken = live.read.take(told.json)
        if (!taken) return undefined
        const text = next(`{"data":${taken.data}}`)
        if (!taken.goesOn) return this.outbox.sendNewest(operation, text)
        // No batch of a stream may be left out.
        return new Promise((resolve) => this.outbox.send(text, resolve))
      },
      end: (code) => {
        if (code === 'expired') return this.end(4403, code)
        if (code === 'closing') return this.end(1001, code)
        this.outbox.flush(operation)
        this.outbox.send(this.message(id, 'complete'))
        this.over(id, operation, true)
      },
    })
    if (operation.isOver) return subscription.close()
    operation.subscription = subscription
    // Its place among the requests in progress is for requests that end.
    exchange.state.leave?.()
    this.ends?.()
  }

  private async sendResult(id: string, operation: Operation, { status, body }: Outcome): Promise<void> {
    const text = await textOf(body)
    if (operation.isOver) return
    if (status !== 200) {
      this.sendErrors(id, text)
      return this.over(id, operation, true)
    }
    const { state } = operation.exchange
    const bytes = Buffer.byteLength(text)
    const release = (): void => state.held.receive(state.session, -bytes, 0)
    try {
      state.held.receive(state.session, bytes, bytes)
    } catch (error) {
      release()
      return this.sendResult(id, operation, failed(operation.exchange, error, this.dialect, '$'))
    }
    this.outbox.send(this.message(id, this.protocol.result, text))
    this.outbox.send(this.message(id, 'complete'), () => {
      release()
      this.over(id, operation, true)
    })
  }

  private sendErrors(id: string, body: string): void {
    const { errors } = JSON.parse(body) as { readonly errors: readonly object[] }
    this.outbox.send(this.message(id, 'error', this.protocol.errors(JSON.stringify(errors))))
  }

  /** @param payload as JSON text */
  private message(id: string, type: string, payload?: string): string {
    const start = `{"id":${JSON.stringify(id)},"type":"${type}"`
    return payload === undefined ? `${start}}` : `${start},"payload":${payload}}`
  }

  /** Ends an operation, and tells the client nothing. */
  private over(id: string, operation: Operation, isComplete: boolean): void {
    if (operation.isOver) return
    operation.isOver = true
    if (this.operations.get(id) === operation) this.operations.delete(id)
    this.outbox.forget(operation)
    operation.subscription?.close()
    operation.exchange.end(isComplete)
    this.ends?.()
  }
}

/** Codes by the status that a request would get. After the others, a client may try again. */
const REFUSALS: Readonly<Record<number, number>> = { 400: 4400, 401: 4401, 403: 4403 }

const tooMany = (): ServiceError =>
  serviceError('too-many-requests', `a connection has at most ${MAX_OPERATIONS} operations at a time`)
