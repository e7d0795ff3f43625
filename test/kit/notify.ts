import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import { fakeSender, type FakeSender } from './sender.js'
import { type Answered, testServer, type TestServer } from './server.js'

const fake = (kind: string) => new URL(`./fake-${kind}.js`, import.meta.url)

export interface NotifyServer extends TestServer {
  readonly email: FakeSender
  /** Where mails go that the first does not take, with `failover: ['second']`. */
  readonly second: FakeSender
  readonly sms: FakeSender
  /** `POST /v1/send/<what>`, as admin. */
  send(what: string, body: unknown, headers?: Readonly<Record<string, string>>): Promise<Answered>
  /** The newest messages. */
  // oxlint-disable-next-line typescript/no-explicit-any
  messages(query?: string): Promise<any[]>
}

export const MAIL = { to: 'A Reader <reader@example.com>', from: 'shop@example.com', sub: 'Hello', text: 'Hi' }
export const SMS = { to: 5550100, countryCode: 1, message: 'Hello' }

/** A server that sends through fakes. @param notify its part of the configuration */
export async function notifyServer(
  t: Test,
  notify: object = {},
  providers: Readonly<Record<string, object>> = {},
  files = false,
): Promise<NotifyServer> {
  const key = randomUUID()
  const [email, second, sms] = ['email', 'second', 'sms'].map((name) => fakeSender(`${name}-${key}`)) as [
    FakeSender,
    FakeSender,
    FakeSender,
  ]
  const server = await testServer(t, {
    notify: true,
    files,
    providers: { email: { first: fake('email'), second: fake('email') }, sms: { first: fake('sms') } },
    config: {
      providers: {
        email: {
          default: 'first',
          first: { key: `email-${key}` },
          second: { key: `second-${key}` },
          ...providers['email'],
        },
        sms: { default: 'first', first: { key: `sms-${key}` }, ...providers['sms'] },
      },
      plugins: { notify },
      ...(files ? { dataDir: t.testdir({}) } : {}),
    },
  })
  const send = (what: string, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
    server.fetch(`/v1/send/${what}`, { method: 'POST', body: JSON.stringify(body), headers })
  return {
    ...server,
    email,
    second,
    sms,
    send,
    messages: async (query = '') => (await server.fetch(`/v1/send${query}`)).body.messages,
  }
}
