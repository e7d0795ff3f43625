import {
  type Call,
  type Data,
  INTERNAL,
  type Operations,
  SendError,
  ServiceError,
  type Services,
  type Session,
} from 'rowhouse'
import { Deadline, jittered, pauseAfter } from 'rowhouse/queue'
import { isObject, type Json, type JsonObject, NO_LIMITS, parseJson, stringifyJson, type TableRef } from 'rowhouse/plan'
import { filled, type Target, type TemplateTarget, type Trigger } from './definition.js'
import type { Receivers } from './receivers.js'
import type { Claimed, Result, Store } from './store.js'
import type { Triggers } from './triggers.js'

/** Maximum pause between two attempts. */
const MAX_PAUSE_SECONDS = 15 * 60
/** Maximum pause that a receiver can ask for. */
const MAX_RETRY_AFTER_SECONDS = 60 * 60
/** Maximum number of consecutive claims without a stored result: the event may end the server. */
const MAX_LOSSES = 5
const DEFAULT_HOURS = 24

/** An event of a row, as a handler of a plugin gets it. Numbers are those of JavaScript. */
export interface RowEvent {
  /** The same in each attempt. */
  readonly id: string
  readonly trigger: string
  readonly table: string | TableRef | null
  /** `schedule` and `once` have no table, key and rows. */
  readonly op: 'insert' | 'update' | 'delete' | 'schedule' | 'once'
  /** Primary key after the change. */
  readonly key: Readonly<Record<string, unknown>> | null
  readonly old: Readonly<Record<string, unknown>> | null
  readonly new: Readonly<Record<string, unknown>> | null
  /** The `payload` of the trigger, read now; null if the row is gone. */
  readonly row?: unknown
  /** Who made the change. All are null for other logins of PostgreSQL. */
  readonly session: {
    readonly role: string | null
    readonly user_id: string | null
    readonly request_id: string | null
  }
  /** When it happened, or was due. */
  readonly at: string
}
/** Throw an error to get the event again later. */
export type Handler = (event: RowEvent, signal: AbortSignal) => Promise<void> | void

interface Parts {
  readonly data: Data
  readonly operations: Operations
  readonly log: Services['log']
  readonly store: Store
  readonly triggers: Triggers
  readonly handlers: ReadonlyMap<string, Handler>
  readonly receivers: Receivers
  readonly options: {
    readonly leaseSeconds: number
    readonly retrySeconds: number
    readonly maxEventBytes: number
  }
  readonly count: (trigger: string, state: Result['state']) => void
}

/** Delivers claimed events to their targets, and stores the results. */
export class Delivery {
  private readonly active = new Set<Deadline>()
  /** Triggers whose last attempt failed. */
  private readonly failing = new Set<string>()

  constructor(private readonly parts: Parts) {}

  /** Makes one attempt. @param since when the event was claimed, by `performance.now()` */
  async deliver(claimed: Claimed, since: number): Promise<void> {
    const { store, log, options } = this.parts
    const known = await this.find(claimed)
    if (!known) return this.end(claimed, failed(`there is no trigger "${claimed.trigger}"`, 'not-exists'))
    if (claimed.losses >= MAX_LOSSES) {
      return this.end(
        claimed,
        failed(`a server claimed it ${claimed.losses} times in a row and stored no result`, null),
      )
    }
    const deadline = new Deadline((options.leaseSeconds * 1000) / 2, since)
    this.active.add(deadline)
    try {
      const { to } = known.trigger
      if ('template' in to) return await this.template(claimed, known, to.template, deadline.signal)
      const event = claimed.event ?? (await store.load(claimed))
      if (event === undefined) return
      if (event === null) return await this.end(claimed, this.tooLarge())
      await this.end(claimed, await this.send(claimed, event, known, deadline.signal))
    } catch (error) {
      // One line for each trigger, not for each of its events.
      const what = { event: claimed.id, trigger: claimed.trigger, why: reasonOf(error) }
      if (!this.failing.has(claimed.trigger)) log.warn(what, 'events of a trigger are not delivered')
      this.failing.add(claimed.trigger)
      const gone = error instanceof SendError && error.gone
      if (gone) await store.stop(claimed.trigger, reasonOf(error))
      await this.end(claimed, this.retried(claimed, known.trigger, error))
    } finally {
      deadline.clear()
      this.active.delete(deadline)
    }
  }

  /** Returns what is to be done with an event; undefined if its trigger is gone. */
  private async find({ trigger, schema, table, target, for_hours: hours }: Claimed): Promise<Related | undefined> {
    if (target === null) {
      return schema === null || table === null ? undefined : this.parts.triggers.find(trigger, { schema, name: table })
    }
    const to = parseJson(target, NO_LIMITS) as unknown as Target
    return { trigger: { on: {}, to, ...(hours === null ? {} : { retry: { for_hours: hours } }) } }
  }

  /** Aborts all attempts. */
  abortAll(): void {
    for (const deadline of this.active) deadline.end()
  }

  /** Runs a template and ends the event in one transaction: the one happens if and only if the other does. */
  private async template(
    claimed: Claimed,
    { trigger, table }: Related,
    { name, args = {}, role }: TemplateTarget,
    signal: AbortSignal,
  ): Promise<void> {
    const { data, operations, store } = this.parts
    const { variables } = claimed
    const session: Session = { role, variables: new Map(variablesIn(variables)), via: 'internal' }
    const call: Call = { session, signal, format: 'json', requestId: `event-${claimed.id}` }
    const result = await data.transaction(call, async (inner): Promise<Result | undefined> => {
      const text = await store.load(claimed, inner.transaction)
      if (text === undefined) return undefined
      if (text === null) return this.tooLarge()
      const event = parseJson(text, NO_LIMITS) as JsonObject
      if (trigger.payload && table) event['row'] = await this.row(trigger.payload, table, event, inner)
      // What was scheduled once has values, in which nothing is a reference.
      const values = claimed.operation === 'once' ? args : filled(args, event, '$')
      const query = { type: 'execute_query_template', args: { name, args: values } }
      await operations.run(query, inner)
      const done = { state: 'done', detail: null } as const
      if (!(await store.end(claimed, done, inner.transaction))) throw new Error('the template changed its own event')
      return done
    })
    if (result?.state === 'done') this.ended(claimed, result)
    else if (result) await this.end(claimed, result)
  }

  private async send(claimed: Claimed, text: string, known: Related, signal: AbortSignal): Promise<Result> {
    const { to, payload } = known.trigger
    const body = payload && known.table ? await this.withPayload(payload, known.table, text, signal) : text
    if ('provider' in to) {
      const { id, trigger } = claimed
      const sent = await this.parts.receivers.send(to.provider, { id, trigger, body }, signal)
      if ('detail' in sent) return { state: 'done', detail: sent.detail }
      return { state: 'queued', error: null, code: null, retryIn: sent.waitSeconds, called: false }
    }
    const handler = 'plugin' in to ? this.parts.handlers.get(to.plugin) : undefined
    if (!handler) throw new Error(`no plugin handles "${'plugin' in to ? to.plugin : ''}"`)
    await handler(JSON.parse(body) as RowEvent, signal)
    return { state: 'done', detail: null }
  }

  /** Adds the payload to the JSON of an event. */
  private async withPayload(
    columns: readonly Json[],
    table: TableRef,
    text: string,
    signal: AbortSignal,
  ): Promise<string> {
    const call: Call = { session: INTERNAL, signal, format: 'json' }
    const row = await this.row(columns, table, parseJson(text, NO_LIMITS) as JsonObject, call)
    return `${text.slice(0, -1)}, "row" : ${stringifyJson(row)}}`
  }

  /** Reads the payload of an event, as admin. */
  private async row(columns: readonly Json[], table: TableRef, event: JsonObject, call: Call): Promise<Json> {
    const { key = null } = event
    if (!isObject(key)) return null
    const where = Object.fromEntries(Object.entries(key).map(([name, value]) => [name, { $eq: value }]))
    const query = { type: 'select', args: { table: { ...table }, columns: [...columns], where, limit: 1 } }
    const answer = await this.parts.operations.run(query, { ...call, session: INTERNAL })
    const text = answer.kind === 'text' ? answer.text : answer.kind === 'bytes' ? answer.bytes.toString() : '[]'
    return (parseJson(text, NO_LIMITS) as Json[])[0] ?? null
  }

  private async end(claimed: Claimed, result: Result): Promise<void> {
    if (await this.parts.store.end(claimed, result)) this.ended(claimed, result)
  }

  private ended({ trigger }: Claimed, { state }: Result): void {
    if (state === 'done') this.failing.delete(trigger)
    this.parts.count(trigger, state)
  }

  private tooLarge(): Result {
    return failed(`it is larger than ${this.parts.options.maxEventBytes} bytes (plugins.events.maxEventBytes)`, null)
  }

  /** Returns the result of a failed attempt: another one after a pause, unless the time is over. */
  private retried({ attempts, age }: Claimed, { retry }: Trigger, error: unknown): Result {
    const code = error instanceof ServiceError ? error.code : null
    // A receiver that wants no more gets it again if its trigger is resumed.
    const { outcome, gone = false, retryAfter = 0 }: Partial<SendError> = error instanceof SendError ? error : {}
    if (outcome === 'refused' && !gone) return failed(reasonOf(error), code)
    const pause = pauseAfter(attempts, this.parts.options.retrySeconds, MAX_PAUSE_SECONDS)
    const retryIn = jittered(Math.max(pause, Math.min(retryAfter, MAX_RETRY_AFTER_SECONDS)))
    if (gone) return { state: 'queued', error: reasonOf(error), code, retryIn: 0, called: true }
    const isOver = age + retryIn > (retry?.for_hours ?? DEFAULT_HOURS) * 3600
    if (isOver) return failed(reasonOf(error), code)
    return { state: 'queued', error: reasonOf(error), code, retryIn, called: true }
  }
}

interface Related {
  readonly trigger: Trigger
  /** Absent for a schedule. */
  readonly table?: TableRef
}

const variablesIn = (text: string | null): [string, string][] =>
  Object.entries(JSON.parse(text ?? '{}') as Record<string, string>)

const failed = (error: string, code: string | null): Result => ({ state: 'failed', error, code })

/** Maximum length of a stored error. */
const MAX_ERROR = 2000

function reasonOf(error: unknown): string {
  if (error instanceof ServiceError && error.path !== '$') return `${error.message} (${error.path})`.slice(0, MAX_ERROR)
  const { message = String(error), response }: { message?: string; response?: string } =
    error instanceof Error ? error : {}
  return (response === undefined ? message : `${message}: ${response}`).slice(0, MAX_ERROR)
}
