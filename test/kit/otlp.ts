import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { isObject } from '../../core/json/value.js'

/** A span as it came. */
export interface ReceivedSpan {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string | undefined
  readonly kind: number
  /** 2: it failed. */
  readonly status: number
  readonly attributes: Readonly<Record<string, unknown>>
}

export interface Receiver {
  /** For an exporter of OTLP/HTTP. */
  readonly url: string
  readonly spans: readonly ReceivedSpan[]
  /** Everything that came, as text. */
  text(): string
}

/** What kinds of spans there are, by number: OTLP, `trace.proto`. */
export const INTERNAL = 1
export const SERVER = 2
export const CLIENT = 3
const KINDS = [INTERNAL, SERVER, CLIENT, 4, 5]

/**
 * Receives traces as OTLP/HTTP with JSON says, and refuses whatever has another shape.
 * @see OpenTelemetry, "OTLP Specification", section "JSON Protobuf Encoding"
 */
export async function otlpReceiver(t: { teardown(fn: () => unknown): unknown }): Promise<Receiver> {
  const spans: ReceivedSpan[] = []
  const bodies: string[] = []
  const server = createServer(async (req, res) => {
    const body = await text(req)
    const answer = (status: number, sent: object) =>
      res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(sent))
    try {
      assert.equal(req.method, 'POST')
      assert.equal(req.url, '/v1/traces')
      assert.equal(req.headers['content-type'], 'application/json')
      spans.push(...received(JSON.parse(body)))
      bodies.push(body)
      answer(200, {})
    } catch (error) {
      bodies.push(`refused: ${String(error)}`)
      answer(400, { code: 3, message: String(error) })
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise((resolve) => server.close(resolve).closeAllConnections()))
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/v1/traces`, spans, text: () => bodies.join('\n') }
}

function received(request: unknown): ReceivedSpan[] {
  return list(request, 'resourceSpans').flatMap((ofResource) => {
    assert(isObject(ofResource) && isObject(ofResource['resource']))
    attributes(ofResource['resource'])
    return list(ofResource, 'scopeSpans').flatMap((ofScope) => {
      assert(isObject(ofScope) && isObject(ofScope['scope']) && typeof ofScope['scope']['name'] === 'string')
      return list(ofScope, 'spans').map(span)
    })
  })
}

function span(given: unknown): ReceivedSpan {
  assert(isObject(given))
  const { name, traceId, spanId, parentSpanId, kind, status, startTimeUnixNano, endTimeUnixNano } = given
  assert(typeof name === 'string' && name !== '')
  assert.match(String(traceId), /^[0-9a-f]{32}$/)
  assert.match(String(spanId), /^[0-9a-f]{16}$/)
  assert(parentSpanId === undefined || (typeof parentSpanId === 'string' && /^[0-9a-f]{16}$/.test(parentSpanId)))
  assert(typeof kind === 'number' && KINDS.includes(kind))
  assert(isObject(status) && [0, 1, 2].includes(Number(status['code'])))
  assert(typeof startTimeUnixNano === 'string' && typeof endTimeUnixNano === 'string')
  assert(BigInt(endTimeUnixNano) >= BigInt(startTimeUnixNano))
  return {
    name,
    traceId: String(traceId),
    spanId: String(spanId),
    parentSpanId,
    kind,
    status: Number(status['code']),
    attributes: attributes(given),
  }
}

function attributes(owner: Record<string, unknown>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    list(owner, 'attributes').map((each) => {
      assert(isObject(each) && typeof each['key'] === 'string' && isObject(each['value']))
      const [[type, value] = [], ...others] = Object.entries(each['value'])
      assert(others.length === 0 && /^(string|int|double|bool|array)Value$/.test(String(type)))
      return [each['key'], type === 'intValue' ? Number(value) : value]
    }),
  )
}

function list(owner: unknown, key: string): readonly unknown[] {
  assert(isObject(owner) && Array.isArray(owner[key]), `${key} is a list`)
  return owner[key] as unknown[]
}
