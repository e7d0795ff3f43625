import {
  isAdmin,
  type Call,
  type Host,
  type Json,
  type JsonObject,
  type Operation,
  type Operations,
  ServiceError,
  serviceError,
  permissionRole,
} from 'rowhouse'
import { isObject, permissionsOf, rowsOf, tableKey } from 'rowhouse/plan'
import type { NotifyConfig } from './config.js'
import { invalidPayload } from './errors.js'
import type { MessageKind, NewMessage } from './message.js'
import type { Outbox } from './outbox.js'
import { type Payload, readEmail, readSms } from './payload.js'
import { queuedResponse, type Sending } from './sending.js'

const OUTBOX = { schema: 'svc_catalog', name: 'svc_outbox' }

const ANSWER = {
  type: 'object',
  properties: { id: { type: 'string', format: 'uuid' }, detail: { type: 'string' }, results: { type: 'array' } },
  required: ['id', 'detail'],
}

interface OperationComponents {
  readonly host: Host
  readonly outbox: Outbox
  readonly config: NotifyConfig
}

/**
 * Returns `send_email` and `send_sms` of the JSON query API. They insert into the outbox, so that in a `bulk` or a template
 * the message is sent if and only if everything else is committed.
 */
export function sendOperations(
  { host, outbox, config }: OperationComponents,
  sending: Sending,
  operations: Operations,
): Record<string, Operation> {
  const data = host.use('data')
  const trackedOutbox = (call: Call) => data.catalogFor(call).tables.get(tableKey(OUTBOX))
  const store = async (messages: readonly NewMessage[], call: Call): Promise<void> => {
    if (trackedOutbox(call)) {
      // Checks permissions on the outbox like those on any table.
      await operations.run(insertOf(messages), { ...call, format: 'json' }).catch(throwAtArgs)
    } else {
      await outbox.put(messages, 'queue', [], config.queue.leaseSeconds, call.transaction)
    }
  }
  /**
   * Returns the keys whose columns the caller's permission sets.
   * @throws ServiceError 400 when the caller may not send at all
   */
  const presetsFor = async (call: Call): Promise<ReadonlySet<string>> => {
    const { role } = call.session
    if (isAdmin(call.session)) return new Set()
    const tracked = trackedOutbox(call)
    if (!tracked)
      throw serviceError('access-denied', 'only the role admin may do this until svc_catalog.svc_outbox is tracked')
    const permission = permissionsOf(tracked, permissionRole(call.session))?.insert
    if (!permission) {
      const denied = { table: OUTBOX, action: 'insert' } as const
      const error = serviceError('permission-denied', `role "${role}" may not insert into "svc_outbox"`, '$.args', {
        denied,
      })
      throw await data.inspect.explainRefusal(error, call)
    }
    const columns = new Set(permission.set.map(({ column }) => column))
    return new Set(Object.entries(COLUMNS).flatMap(([key, column]) => (columns.has(column) ? [key] : [])))
  }
  const operation = (kind: MessageKind, read: (args: Json, presets: ReadonlySet<string>) => Payload): Operation => ({
    templatable: { '*': 'text' },
    answer: ANSWER,
    undoable: true,
    lift: (args) => operations.lift(insertOf([{ id: null, kind, at_most_once: null, ...columnsOf(args) }])),
    async run(args, call) {
      try {
        if (isObject(args) && args['queue'] === false)
          throw invalidPayload('messages sent by a query are always queued', '$.queue')
        const payload = read(args, await presetsFor(call))
        if (payload.attachments.length > 0)
          throw invalidPayload('only POST /v1/send/email takes attachments', '$.attachments')
        const messages = await sending.prepare(payload.messages)
        await sending.checkProviders(messages, [])
        await store(messages, call)
        const ids = messages.map(({ id }) => id)
        return { kind: 'text', text: JSON.stringify(queuedResponse(ids, payload)) }
      } catch (error) {
        throw asQueryError(error)
      }
    },
  })
  return {
    send_email: operation('email', (args, presets) => readEmail(args, config.email, presets)),
    send_sms: operation('sms', readSms),
  }
}

function insertOf(rows: readonly object[]): Json {
  const objects = JSON.parse(JSON.stringify(rows)) as JsonObject[]
  return { type: 'insert', args: { table: OUTBOX, objects: rowsOf(objects, '$') } }
}

/** The columns of the outbox by the keys of a payload. */
const COLUMNS: Readonly<Record<string, string>> = {
  to: 'to',
  from: 'from',
  fromName: 'from_name',
  sub: 'sub',
  text: 'text',
  html: 'html',
  cc: 'cc',
  bcc: 'bcc',
  replyTo: 'reply_to',
  countryCode: 'country_code',
  message: 'message',
  atMostOnce: 'at_most_once',
}

/** Returns the columns that a payload fills, without values, which may be parameters of a template. */
function columnsOf(args: Json): object {
  if (!isObject(args)) return {}
  return Object.fromEntries(Object.entries(COLUMNS).flatMap(([key, column]) => (key in args ? [[column, null]] : [])))
}

/** Replaces the path of an error in the insert, which the caller did not write. */
function throwAtArgs(error: unknown): never {
  if (!(error instanceof ServiceError)) throw error
  throw error.moved('$.args')
}

/** Converts an error of a payload into one of the JSON query API. */
function asQueryError(error: unknown): unknown {
  if (!(error instanceof ServiceError) || error.code !== 'invalid_payload') return error
  const message = error.message.replace(/^Error in [^ ]*: /, '')
  return serviceError('unexpected-payload', message, `$.args${error.path.slice(1)}`, { cause: error })
}
