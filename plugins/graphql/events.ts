import type { Answer, Exchange } from 'rowhouse'
import type { LiveService, Say } from 'rowhouse/plugins/live'
import { textOf } from './execute.js'
import type { Dialect } from './plan/names.js'
import { failed, type Outcome } from './run.js'

export const EVENTS = 'text/event-stream'

/** Statuses that say when to send the request again, or how: a client that gets an event does not. */
const OWN_STATUS = new Set([405, 429])

/**
 * Returns what answers a request with server-sent events: `next` with a result, and `complete` after the last.
 * @see https://github.com/enisdenjo/graphql-sse/blob/master/PROTOCOL.md, distinct connections mode
 */
export function eventsFor(
  find: () => LiveService | undefined,
): (ctx: Exchange, outcome: Outcome, dialect: Dialect) => Promise<Answer> {
  return async (ctx, outcome, dialect) => {
    const { live } = outcome
    const service = find()
    if (!live || !service) return once(outcome)
    try {
      return await service.open(ctx, () => live.read.lift(), saying(live))
    } catch (error) {
      return once(failed(ctx, error, dialect, '$'))
    }
  }
}

/** Without `complete` at the end, a client connects again: with new credentials, or to another server. */
const saying =
  ({ read, errorText }: NonNullable<Outcome['live']>): Say =>
  (told) => {
    switch (told.kind) {
      case 'answer': {
        const taken = read.take(told.json)
        return taken && { event: 'next', data: `{"data":${taken.data}}`, again: taken.goesOn || undefined }
      }
      case 'error':
        return { event: 'next', data: errorText(told.error) }
      case 'end':
        return told.code === 'changed' ? { event: 'complete', data: '' } : undefined
    }
  }

async function once({ status, body }: Outcome): Promise<Answer> {
  const json = await textOf(body)
  if (OWN_STATUS.has(status) || status >= 500) return { kind: 'text', text: json, status }
  const text = `event: next\ndata: ${json.replaceAll(/\r\n|\r|\n/g, '\ndata: ')}\n\nevent: complete\ndata:\n\n`
  return { kind: 'text', text, contentType: `${EVENTS}; charset=utf-8` }
}
