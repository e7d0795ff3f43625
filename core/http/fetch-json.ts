import type { Outbound, OutboundRequest } from './outbound.js'

/** A response of a service that the operator configured. */
export interface JsonAnswer {
  readonly status: number
  /** The parsed body; `undefined` when it is not JSON. */
  readonly json: unknown
}

/** Fetches a small JSON document. @throws OutboundError */
export async function fetchJson(outbound: Outbound, request: OutboundRequest): Promise<JsonAnswer> {
  const { status, body } = await outbound.ask(request)
  return { status, json: parsed(body.toString('utf8')) }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
