import { isObject, type Json, type JsonObject } from 'rowhouse/plan'
import { listOf, objects, textOf } from './metadata.js'
import type { Report } from './report.js'

const NAME = /^[A-Za-z0-9_.-]{1,64}$/
const OPERATIONS = ['insert', 'update', 'delete'] as const
/** Of Hasura. */
const RETRY_SECONDS = 10

/** Moves the event triggers of a table: to a provider of the same name each, whose settings are in the report. */
export function mapEventTriggers(given: JsonObject, table: string, report: Report): JsonObject | undefined {
  const moved: JsonObject = {}
  for (const trigger of objects(given['event_triggers'])) {
    const name = textOf(trigger['name'])
    const webhook = webhookOf(trigger)
    const on = onOf(trigger['definition'])
    if (!NAME.test(name) || !webhook || Object.keys(on).length === 0) {
      report.leave('event trigger', `${table}.${name}`, webhook ? undefined : 'it has no webhook')
      continue
    }
    report.receivers[name] = webhook
    moved[name] = { on, to: { provider: name }, retry: { for_hours: hoursOf(trigger['retry_conf']) } }
    report.note('event trigger', `${table}.${name}`, 'its webhook gets other JSON, signed and with all columns')
    for (const key of ['request_transform', 'response_transform']) {
      if (trigger[key]) report.note('event trigger', `${table}.${name}`, `moved without its ${key}`)
    }
  }
  return Object.keys(moved).length > 0 ? moved : undefined
}

/** Reports a cron trigger with the operation that makes it: schedules are no metadata. */
export function leaveCronTrigger(trigger: JsonObject, report: Report): void {
  const name = textOf(trigger['name'])
  const webhook = webhookOf({ ...trigger, ...urlOf(trigger['webhook']) })
  if (!webhook || !NAME.test(name)) return report.leave('cron trigger', name)
  report.receivers[name] = webhook
  const args = { name, cron: trigger['schedule'] ?? null, to: { provider: name } }
  const without = trigger['payload'] ? '; it sends no payload' : ''
  report.leave('cron trigger', name, `run ${JSON.stringify({ type: 'create_schedule', args })}${without}`)
}

/** Returns `{webhook}` or `{webhook_from_env}` of a cron trigger, whose webhook is a text. */
const urlOf = (webhook: Json | undefined): JsonObject =>
  isObject(webhook) ? { webhook: null, webhook_from_env: webhook['from_env'] ?? null } : {}

/** Returns the settings of a provider. */
function webhookOf({ webhook, webhook_from_env: variable, headers }: JsonObject): JsonObject | undefined {
  const [, whole] = /^\{\{\s*(\w+)\s*\}\}$/.exec(typeof webhook === 'string' ? webhook : '') ?? []
  const env = typeof variable === 'string' ? variable : whole
  if (env === undefined && typeof webhook !== 'string') return undefined
  const own = objects(headers).map(({ name, value, value_from_env: from }): [string, Json] => [
    textOf(name),
    typeof from === 'string' ? { $env: from } : textOf(value),
  ])
  const url: Json = env === undefined ? (webhook as string) : { $env: env }
  return { use: 'webhook', url, ...(own.length > 0 ? { headers: Object.fromEntries(own) } : {}) }
}

function onOf(definition: Json | undefined): JsonObject {
  const given = isObject(definition) ? definition : {}
  return Object.fromEntries(
    OPERATIONS.filter((operation) => isObject(given[operation])).map((operation): [string, Json] => {
      const columns = listOf((given[operation] as JsonObject)['columns'])
      return [operation, operation === 'update' && columns.length > 0 ? { columns: [...columns] } : {}]
    }),
  )
}

/** Hasura tries `num_retries` times again, at an interval. */
function hoursOf(given: Json | undefined): number {
  const { num_retries: retries = 0, interval_sec: seconds = RETRY_SECONDS } = isObject(given) ? given : {}
  return Math.max(1, Math.ceil((Number(retries) * Number(seconds)) / 3600))
}
