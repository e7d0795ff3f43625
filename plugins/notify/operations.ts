import { randomUUID } from 'node:crypto'
import {
  type Call,
  type Data,
  type Json,
  type JsonObject,
  type Operation,
  type Operations,
  ServiceError,
} from 'rowhouse'
import { isObject, rowsOf, tableKey } from 'rowhouse/plan'
import type { NotifyConfig } from './config.js'
import { invalidPayload } from './errors.js'
import type { NewMessage, Outbox } from './outbox.js'
import { type Draft, type Payload, readEmail, readSms } from './payload.js'
import { queued, type Sending } from './send.js'

const OUTBOX = { schema: 'svc_catalog', name: 'svc_outbox' }

interface Parts {
  readonly host: { use(service: 'data'): Data }
  readonly outbox: Outbox
  readonly config: NotifyConfig
}

/**
 * `send_email` and `send_sms` in the JSON query API: an insert into the outbox, so that inside a `bulk` or a template the
 * message exists if, and only if, everything else there is committed.
 */
export function sendOperations(
  { host, outbox, config }: Parts,
  sending: Sending,
  operations: Operations,
): Record<string, Operation> {
  const data = host.use('data')
  const insertOf = (rows: readonly object[]): Json => ({
    type: 'insert',
    args: {
      table: OUTBOX,
      objects: rowsOf(
        rows.map((row) => JSON.parse(JSON.stringify(row)) as JsonObject),
        '$',
      ),
    },
  })
  const store = async (rows: readonly NewMessage[], call: Call): Promise<void> => {
    if (data.catalogFor(call).tables.has(tableKey(OUTBOX))) {
      // What permissions on the outbox say holds here as for any table.
      await operations.run(insertOf(rows), { ...call, format: 'json' }).catch(atArgs)
    } else {
      await outbox.put(rows, 'queue', [], config.queue.leaseSeconds, undefined, call.transaction)
    }
  }
  /** @throws ServiceError 400 when the caller may send nothing at all */
  const refuseWithout = (call: Call): void => {
    const { role } = call.session
    if (role === 'admin') return
    const outbox = data.catalogFor(call).tables.get(tableKey(OUTBOX))
    if (!outbox)
      throw new ServiceError(400, 'access-denied', 'restricted access : admin only, as svc_outbox is not tracked')
    if (outbox.permissionsByRole.get(role)?.insert) return
    throw new ServiceError(400, 'permission-denied', `role "${role}" may not insert into "svc_outbox"`, '$.args')
  }
  /** Whether the caller's permission sets a column by itself. */
  const isPreset = (column: string, call: Call): boolean => {
    const permissions = data.catalogFor(call).tables.get(tableKey(OUTBOX))?.permissionsByRole.get(call.session.role)
    return permissions?.insert?.set.some((preset) => preset.column === column) ?? false
  }
  /** @param standIns for what a payload must have, where a permission will set it */
  const operation = (kind: Draft['kind'], read: (args: Json) => Payload, standIns: JsonObject): Operation => ({
    templatable: { '*': 'text' },
    lift: (args) => operations.lift(insertOf([{ id: NOBODY, kind, at_most_once: false, ...sampleOf(args) }])),
    async run(args, call) {
      try {
        const given = isObject(args) ? args : {}
        if (given['queue'] === false) throw invalidPayload('what is sent in a query is always queued', '$.queue')
        refuseWithout(call)
        const absent = Object.keys(standIns).filter((key) => given[key] === undefined && isPreset(columnOf(key), call))
        const filled = absent.map((key) => [key, standIns[key]])
        const payload = read(filled.length > 0 ? { ...(Object.fromEntries(filled) as JsonObject), ...given } : args)
        if (payload.attachments.length > 0) throw invalidPayload('they are for POST /v1/send/email', '$.attachments')
        const drafts = payload.drafts.map((draft) => {
          const said: Record<string, unknown> = { ...draft }
          for (const key of absent) delete said[columnOf(key)]
          return said as unknown as Draft
        })
        const rows = (await sending.prepare(drafts)).map((draft) => ({ id: randomUUID(), ...draft }))
        await store(rows, call)
        return {
          kind: 'text',
          text: JSON.stringify(
            queued(
              rows.map(({ id }) => id),
              payload,
            ),
          ),
        }
      } catch (error) {
        throw asQuery(error)
      }
    },
  })
  return {
    send_email: operation('email', (args) => readEmail(args, config.email), {
      to: MAILBOX,
      from: MAILBOX,
      sub: '',
      text: '',
    }),
    send_sms: operation('sms', readSms, { to: '0000', countryCode: '1', message: '-' }),
  }
}

const MAILBOX = 'preset@example.com'
const NOBODY = '00000000-0000-0000-0000-000000000000'

/** The columns that a message fills, by its fields, with something that fits. */
const SAMPLES: Readonly<Record<string, readonly [column: string, sample: Json]>> = {
  to: ['to', ''],
  from: ['from', ''],
  fromName: ['from_name', ''],
  sub: ['sub', ''],
  text: ['text', ''],
  html: ['html', ''],
  cc: ['cc', []],
  bcc: ['bcc', []],
  replyTo: ['reply_to', ''],
  countryCode: ['country_code', ''],
  message: ['message', ''],
  atMostOnce: ['at_most_once', false],
}
const columnOf = (field: string): string => SAMPLES[field]?.[0] ?? field

/** What a message would insert, whatever its fields say: a template has parameters there. */
function sampleOf(args: Json): JsonObject {
  const fields = isObject(args) ? Object.keys(args) : []
  return Object.fromEntries(
    fields.flatMap((field) => [SAMPLES[field] ?? []].filter(({ length }) => length > 0)),
  ) as JsonObject
}

/** The path of an error is of the insert, which nobody has written. */
function atArgs(error: unknown): never {
  if (!(error instanceof ServiceError)) throw error
  throw new ServiceError(error.status, error.code, error.message, '$.args', { cause: error, internal: error.internal })
}

/** What is wrong with a payload, as the JSON query API says such things. */
function asQuery(error: unknown): unknown {
  if (!(error instanceof ServiceError) || error.code !== 'invalid_payload') return error
  const message = error.message.replace(/^Error in [^ ]*: /, '')
  return new ServiceError(400, 'unexpected-payload', message, `$.args${error.path.slice(1)}`, { cause: error })
}
