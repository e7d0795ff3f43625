import { type Asked, type FaultyServer, faultyServer } from './faulty-server.js'

/** A gateway of no known make. It answers 401 without its key, and else with a number for the message. */
export async function fakeGateway(
  t: Parameters<typeof faultyServer>[0],
  key: { readonly header: string; readonly value: string },
): Promise<FaultyServer> {
  const known = new Map<string, number>()
  let last = 0
  return faultyServer(t, (asked: Asked) => {
    if (asked.headers[key.header] !== key.value) return { status: 401, body: '{"error": "no key"}' }
    const once = asked.headers['idempotency-key']
    const number = (typeof once === 'string' ? known.get(once) : undefined) ?? ++last
    if (typeof once === 'string') known.set(once, number)
    return { status: 202, body: JSON.stringify({ result: 'ok', messages: [{ id: number }] }) }
  })
}
