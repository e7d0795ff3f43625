import { isObject, type Json, type JsonObject, parseJson } from 'rowhouse/plan'

/** What a client asks for. */
export type Asked =
  | { readonly kind: 'init'; readonly payload: JsonObject }
  | { readonly kind: 'start'; readonly id: string; readonly payload: Json }
  | { readonly kind: 'stop'; readonly id: string }
  | { readonly kind: 'ping' }
  | { readonly kind: 'pong' }
  | { readonly kind: 'end' }

/** The messages of one of the two protocols, and where they differ. */
export interface Protocol {
  readonly asks: Readonly<Record<string, Asked['kind']>>
  /** Type of a result. Both call the others `error` and `complete`. */
  readonly result: 'next' | 'data'
  /** Whether an operation with the id of another one that runs ends the connection. Otherwise it replaces that one. */
  readonly refusesTwice: boolean
  /** Whether clients send operations before the connection is acknowledged. */
  readonly startsEarly: boolean
  /** Whether a refused connection gets a message first. */
  readonly explainsRefusal: boolean
  /** A message at intervals, besides the frames of WebSocket. */
  readonly beat?: string
  /** Returns the payload of `error` from a list of errors as JSON text. */
  errors(list: string): string
}

/**
 * By subprotocol.
 * @see https://github.com/enisdenjo/graphql-ws/blob/master/PROTOCOL.md
 * @see https://github.com/apollographql/subscriptions-transport-ws/blob/master/PROTOCOL.md, which older clients of Hasura have
 */
export const PROTOCOLS: Readonly<Record<string, Protocol>> = {
  'graphql-transport-ws': {
    asks: { connection_init: 'init', subscribe: 'start', complete: 'stop', ping: 'ping', pong: 'pong' },
    result: 'next',
    refusesTwice: true,
    startsEarly: false,
    explainsRefusal: false,
    errors: (list) => list,
  },
  'graphql-ws': {
    asks: { connection_init: 'init', start: 'start', stop: 'stop', connection_terminate: 'end' },
    result: 'data',
    refusesTwice: false,
    startsEarly: true,
    explainsRefusal: true,
    beat: '{"type":"ka"}',
    errors: (list) => `{"errors":${list}}`,
  },
}

const MAX_ID = 256

/** @returns a text that says what is wrong, if the message is invalid */
export function readMessage(text: string, { asks }: Protocol): Asked | string {
  let message: Json
  try {
    message = parseJson(text)
  } catch (error) {
    return `the message is no JSON: ${error instanceof Error ? error.message : ''}`
  }
  if (!isObject(message)) return 'a message is an object'
  const { type, id, payload } = message
  const kind = typeof type === 'string' && Object.hasOwn(asks, type) ? asks[type] : undefined
  switch (kind) {
    case undefined:
      return `a message has a type: ${Object.keys(asks).join(', ')}`
    case 'init':
      if (payload !== undefined && payload !== null && !isObject(payload)) return 'the payload is an object'
      return { kind, payload: isObject(payload) ? payload : {} }
    case 'start':
    case 'stop':
      if (typeof id !== 'string' || id === '' || id.length > MAX_ID)
        return `an id is a text of 1 to ${MAX_ID} characters`
      return kind === 'stop' ? { kind, id } : { kind, id, payload: payload ?? null }
    case 'ping':
    case 'pong':
    case 'end':
      return { kind }
  }
}
