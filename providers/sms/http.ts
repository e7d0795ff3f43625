import { defineProvider, SendError, shortLine, valueAtPointer } from 'rowhouse'
import { tryParseJson } from '../answer.js'
import { baseOf, createApi, unreadable } from '../api.js'
import { config, type HttpConfig } from './http/config.js'
import { checkFields, fillIn, formOf, placeholdersIn, placeholdersOf } from './http/fields.js'

const TYPES = { json: 'application/json', form: 'application/x-www-form-urlencoded' } as const

/** Sends through any gateway that accepts a message in one request. */
export default defineProvider({
  kind: 'sms',
  name: 'http',
  config,
  create(settings) {
    const { url, method, format, fields, from, idPointer, accepted, refused, refusedStatuses } = settings
    const { idempotencyHeader, deduplicationSeconds, timeoutMs } = settings
    check(settings)
    const isRefused = (json: unknown) => matches(refused, json)
    const api = createApi(
      { timeoutMs, secrets: textsOf(settings) },
      (status, text) => refusedStatuses.includes(status) || (refused !== undefined && isRefused(tryParseJson(text))),
    )
    return {
      sendsOnceForSeconds: deduplicationSeconds,
      async send(sms, signal) {
        const values = fillIn(fields, placeholdersOf(sms, from ?? '')) as object
        const address = new URL(url)
        if (format === 'query') for (const [name, value] of formOf(values)) address.searchParams.append(name, value)
        const { json, text } = await api.send(
          {
            method,
            url: address,
            headers: {
              ...(format === 'query' ? {} : { 'content-type': TYPES[format] }),
              ...settings.headers,
              ...(idempotencyHeader === undefined ? {} : { [idempotencyHeader]: sms.id }),
            },
            body: format === 'query' ? undefined : format === 'json' ? JSON.stringify(values) : String(formOf(values)),
          },
          signal,
        )
        if (isRefused(json)) throw new SendError('refused', 'the gateway rejected the message', { response: text })
        if (accepted !== undefined && !matches(accepted, json)) {
          if (textAt(accepted.pointer, json) === undefined) throw unreadable(text)
          throw new SendError('retry', 'the gateway did not accept the message', { response: text })
        }
        const id = idPointer === undefined ? sms.id : textAt(idPointer, json)
        if (id === undefined || id === '') throw unreadable(text)
        return { id, detail: `accepted: ${shortLine(text)}` }
      },
      close: () => api.close(),
    }
  },
})

/** @throws Error when settings conflict */
function check({ url, method, format, fields, from, idempotencyHeader, deduplicationSeconds }: HttpConfig): void {
  baseOf(url)
  checkFields(fields, from)
  if (format !== 'json') formOf(fields)
  if (method === 'GET' && format !== 'query') throw new Error('a GET has no body: set "format" to "query"')
  if (deduplicationSeconds !== undefined && idempotencyHeader === undefined && !placeholdersIn(fields).has('id')) {
    throw new Error('"deduplicationSeconds" requires "idempotencyHeader", or {id} in "fields"')
  }
}

type Condition = NonNullable<HttpConfig['accepted']>

function matches(condition: Condition | undefined, json: unknown): boolean {
  const text = condition && textAt(condition.pointer, json)
  return text !== undefined && condition !== undefined && condition.values.includes(text)
}

/** Returns the text, number or boolean at a JSON pointer as text, or undefined. */
function textAt(pointer: string, json: unknown): string | undefined {
  const value = valueAtPointer(json, pointer)
  return ['string', 'number', 'boolean'].includes(typeof value) ? String(value) : undefined
}

/** Returns all configured texts, because any of them may be a secret. */
function textsOf({ headers, fields }: HttpConfig): readonly string[] {
  const texts: string[] = Object.values(headers)
  const collect = (part: unknown): void => {
    if (typeof part === 'string') texts.push(part)
    else if (typeof part === 'object' && part !== null) for (const inner of Object.values(part)) collect(inner)
  }
  collect(fields)
  return texts
}
