import { randomUUID } from 'node:crypto'
import { tmpdir } from 'node:os'
import { pino } from 'pino'
import type { ProviderKinds } from '../../../core/host/contracts.js'
import type { Provider } from '../../../core/host/plugin.js'
import type { Infer, Schema } from '../../../core/json/schema.js'
import { validate } from '../../../core/host/validate.js'
import { type Answer, type Asked, type FaultyServer, faultyServer } from '../fake-apis/faulty-server.js'

/** What a suite of a sender plays on: a provider, and the other side of it, which fails as the suite says. */
export interface Stage<P, T> {
  readonly provider: P
  /** The messages that the other side took so far, as it understood them. */
  taken(): readonly T[] | Promise<readonly T[]>
  /** How each message goes wrong until this is called without one. Absent: nothing leaves this process. */
  fail?(fault?: Fault): void
  /** Credentials of the provider, which no error may show. */
  readonly secrets: readonly string[]
  /** Ends the other side. */
  close?(): Promise<void>
}

/**
 * How a message goes wrong. `refused`: it never will be sent, in the API's own words; `failed`: a fault of the provider, with
 * this text; `unauthorized`: wrong credentials, likewise; `nonsense`: it is accepted in a form that the API does not have;
 * `lost`: it is taken, and the connection breaks before the answer; `unread`: the connection breaks before it is read;
 * `silent`: it is read, and nothing comes back; `named`: nothing is wrong, and the API calls the message so; `some`: these
 * recipients of a mail are not accepted, and the others are. Only providers with `sendsToSome` meet it.
 */
export type Fault =
  | { readonly kind: 'refused' | 'lost' | 'unread' }
  | { readonly kind: 'failed' | 'unauthorized'; readonly text: string }
  | { readonly kind: 'nonsense'; readonly body: string }
  | { readonly kind: 'silent'; readonly asked: () => void }
  | { readonly kind: 'named'; readonly id: string }
  | { readonly kind: 'some'; readonly postponed: readonly string[]; readonly refused: readonly string[] }

export interface TakenMail {
  /** Addresses of all who get it. */
  readonly recipients: readonly string[]
  /** Addresses that its readers see, the sender's apart. */
  readonly shown: readonly string[]
  readonly subject?: string | undefined
  readonly text?: string | undefined
  readonly html?: string | undefined
  readonly attachments?: readonly Buffer[] | undefined
}
export interface TakenSms {
  /** With the calling code; only digits count. */
  readonly to: string
  readonly text: string
}
export interface TakenEvent {
  readonly id: string
  /** As it was written. */
  readonly body: string
}
interface Taken {
  event: TakenEvent
  email: TakenMail
  sms: TakenSms
}

export interface HttpStageOptions<T> {
  /** The provider's settings for an API at this address; defaults are filled in. */
  config(url: string): object
  /** The credentials among them. */
  readonly secrets: readonly string[]
  /** The message in a request. `once`: what the API knows a repeated message by, if it does. */
  read(request: Asked): (T & { readonly once?: string }) | Promise<T & { readonly once?: string }>
  /** How the API says that it took a message, and calls it `id`. */
  accepted(id: string): Answer
  /** How the API says that it never will send a message. */
  readonly refused: Answer
  /** How the API says that it took a mail but not for these recipients, for a provider with `sendsToSome`. */
  some?(id: string, not: { readonly postponed: readonly string[]; readonly refused: readonly string[] }): Answer
}

/** The stage of a provider that speaks to an API over HTTP: a server on loopback takes the part of the API. */
export async function httpStage<K extends keyof Taken, S extends Schema>(
  provider: Provider<K, S>,
  { config, secrets, read, accepted, refused, some }: HttpStageOptions<Taken[K]>,
): Promise<Stage<ProviderKinds[K], Taken[K]>> {
  const taken: Taken[K][] = []
  const known = new Map<string, string>()
  let fault: Fault | undefined
  const api: FaultyServer = await faultyServer({ teardown: () => {} }, async (request) => {
    if (fault?.kind === 'silent') fault.asked()
    if (fault?.kind === 'some' && some) {
      const not = new Set([...fault.postponed, ...fault.refused])
      const mail = (await read(request)) as unknown as TakenMail
      taken.push({ ...mail, recipients: mail.recipients.filter((each) => !not.has(each)) } as unknown as Taken[K])
      return some(randomUUID(), fault)
    }
    if (fault !== undefined && fault.kind !== 'lost' && fault.kind !== 'named') return refused
    const message = await read(request)
    const { once = randomUUID() } = message
    if (!known.has(once)) taken.push(message)
    const id = known.get(once) ?? (fault?.kind === 'named' ? fault.id : randomUUID())
    known.set(once, id)
    return accepted(id)
  })
  const faultOf = (): FaultyServer['fault'] => {
    const answer = (status: number, body: string) => ({ kind: 'answer', answer: { status, body } }) as const
    switch (fault?.kind) {
      case undefined:
      case 'refused':
      case 'named':
      case 'some':
        return undefined
      case 'failed':
        return answer(500, fault.text)
      case 'unauthorized':
        return answer(401, fault.text)
      case 'nonsense':
        return answer(200, fault.body)
      case 'lost':
      case 'unread':
        return { kind: fault.kind }
      case 'silent':
        return { kind: 'hang' }
    }
  }
  const checked = validate(provider.config ?? { type: 'object' }, { ...config(api.url) })
  if (!checked.ok) throw new Error(JSON.stringify(checked.issues))
  const context = { log: pino({ level: 'silent' }), dataDir: tmpdir() }
  return {
    provider: await provider.create(checked.value as Infer<S>, context),
    taken: () => taken,
    fail(next) {
      fault = next
      api.fault = faultOf()
    },
    secrets,
    close: () => api.close(),
  }
}
