import { randomUUID } from 'node:crypto'
import {
  type Answer,
  type Call,
  type Data,
  type Json,
  type JsonObject,
  type Operation,
  type Operations,
  ServiceError,
} from 'rowhouse'
import { tableKey } from 'rowhouse/plan'
import type { NotifyConfig } from './config.js'
import type { Outbox } from './outbox.js'
import { type Draft, type Payload, readEmail, readSms } from './payload.js'
import type { Sending } from './send.js'

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
  const operation = (read: (args: Json) => Payload): Operation => ({
    async run(args, call) {
      const payload = under(() => read(args))
      if (payload.attachments.length > 0) throw refused('attachments are for POST /v1/send/email')
      const drafts = await sending.prepare(payload.drafts).catch(asQuery)
      const rows = drafts.map((draft) => ({ id: randomUUID(), ...draft }))
      if (data.catalogFor(call).tables.has(tableKey(OUTBOX))) await insert(rows, call)
      else if (call.session.role !== 'admin')
        throw new ServiceError(400, 'access-denied', `"svc_outbox" is not tracked: admin only`, '$')
      else await outbox.put(rows, 'queue', [], config.queue.leaseSeconds, undefined, call.transaction)
      const results = rows.map(({ id, to }) => ({ to, id, detail: 'queued' }))
      const { id, detail } = results[0] as (typeof results)[number]
      return text(payload.several ? { id, detail, results } : { id, detail })
    },
  })
  /** What permissions on the outbox say holds here as for any table. */
  const insert = async (rows: readonly (Draft & { readonly id: string })[], call: Call) => {
    const objects = rows.map((row) => JSON.parse(JSON.stringify(row)) as JsonObject)
    await operations
      .run({ type: 'insert', args: { table: OUTBOX, objects } }, { ...call, format: 'json' })
      .catch((error) => {
        throw error instanceof ServiceError
          ? new ServiceError(error.status, error.code, error.message, '$.args', { cause: error })
          : error
      })
  }
  return {
    send_email: operation((args) => readEmail(args, config.email)),
    send_sms: operation(readSms),
  }
}

const text = (value: object): Answer => ({ kind: 'text', text: JSON.stringify(value) })
const refused = (message: string) => new ServiceError(400, 'unexpected-payload', message, '$.args.attachments')

/** What is wrong with a payload, as the JSON query API says such things. */
function under<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw asQuery(error)
  }
}
function asQuery(error: unknown): never {
  if (!(error instanceof ServiceError) || error.code !== 'invalid_payload') throw error
  const message = error.message.replace(/^Error in [^ ]*: /, '')
  throw new ServiceError(400, 'unexpected-payload', message, `$.args${error.path.slice(1)}`, { cause: error })
}
