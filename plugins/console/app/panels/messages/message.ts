import type { MessageRecord } from 'rowhouse/plugins/notify'
import type { Json } from '../../json.js'
import type { ProvidersByChannel } from './provider.js'

/** A message as `GET /v1/send` lists it. */
export type Message = MessageRecord

/** A recipient with an outcome of its own. */
export type Recipient = NonNullable<MessageRecord['recipients']>[number]

/** A message with its contents, which are null after their deletion. */
export interface OpenMessage extends Message {
  readonly text: string | null
  readonly html: string | null
  readonly content: Json
  readonly cc: Json
  readonly bcc: Json
  readonly reply_to: string | null
  readonly attachments: readonly { readonly filename: string; readonly content_type: string; readonly size: number }[]
}

/** The states, as the panel calls them. */
export const STATES = {
  queued: 'queued',
  sending: 'sending',
  sent: 'sent',
  partly_sent: 'partly sent',
  caught: 'caught',
  failed: 'failed',
  unknown: 'unknown',
} as const
export const KINDS: Readonly<Record<Message['kind'], string>> = {
  email: 'email',
  'email-template': 'email template',
  sms: 'SMS',
}

/** Whether no message can leave the server. */
export function onlyCatches({ email, sms }: ProvidersByChannel): boolean {
  const called = [...email, ...sms].filter(({ position }) => position !== null)
  return called.length > 0 && called.every(({ catches }) => catches)
}

export function titleOf({ kind, sub, template, message }: Message): string {
  if (kind === 'sms') return message || sub || '(SMS)'
  if (sub) return sub
  return kind === 'email-template' ? `Template ${template}` : '(no subject)'
}

export const recipientOf = ({ kind, country_code: code, to }: Message): string =>
  kind === 'sms' ? `+${code ?? ''} ${to}` : to

export const senderOf = ({ from, from_name: name }: Pick<Message, 'from' | 'from_name'>): string =>
  name && from ? `${name} <${from}>` : (from ?? '')

/** Returns addresses as one text: of a text, `{address, name}`, or a list of them. */
export const addressesOf = (value: Json | undefined): string =>
  (Array.isArray(value) ? (value as readonly Json[]) : [value])
    .map((each) => {
      if (each === null || typeof each !== 'object') return each
      const { address, name } = each as { readonly address?: string; readonly name?: string }
      return senderOf({ from: address ?? null, from_name: name ?? null })
    })
    .filter((each) => each !== null && each !== undefined && each !== '')
    .join(', ')

/** Returns the text in which a search for messages looks. */
export const searchable = (message: Message): string =>
  [titleOf(message), recipientOf(message), senderOf(message), message.id, message.provider, message.provider_id]
    .concat(message.template, STATES[message.state], message.delivery, message.error)
    .filter(Boolean)
    .join('\n')
    .toLowerCase()

/** Returns the http and https URLs in a message, without duplicates. @param written links of its HTML */
export function linksOf({ text, message, content }: OpenMessage, written: readonly string[]): readonly string[] {
  const values = valuesOf(content).map(([, value]) => value)
  const found = [text ?? message ?? '', ...values].join('\n').match(/https?:\/\/[^\s<>"']+[^\s<>"'.,;:!?)]/g) ?? []
  return [...new Set([...written, ...found])].filter((href) => /^https?:\/\//i.test(href) && URL.canParse(href))
}

/** Returns the values of a mail of a template. */
export const valuesOf = (content: Json): readonly (readonly [name: string, value: string])[] =>
  Array.isArray(content)
    ? (content as readonly { readonly name: string; readonly content: string }[]).map((each) => [
        each.name,
        each.content,
      ])
    : []

const ACCEPTED: Readonly<Record<string, string>> = {
  caught: 'caught',
  partly_sent: 'accepted by the provider for some recipients',
}

/** Returns what happened to a message, with the times that are known. */
export function timelineOf(message: Message): readonly (readonly [at: string | null, what: string])[] {
  const { attempts, state, delivery, delivery_detail: detail } = message
  const counted = `${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}`
  const outcome: readonly [string | null, string] | undefined = message.sent_at
    ? [message.sent_at, `${ACCEPTED[state] ?? 'accepted by the provider'} after ${counted}`]
    : state === 'failed'
      ? [null, `failed after ${counted}`]
      : state === 'unknown'
        ? [null, `outcome unknown after ${counted}`]
        : attempts > 0
          ? [null, `${counted} so far`]
          : undefined
  return [
    [message.created_at, message.mode === 'queue' ? 'queued' : 'received'],
    ...(outcome ? [outcome] : []),
    ...(delivery ? [[message.delivery_at, detail ? `${delivery}: ${detail}` : delivery] as const] : []),
    ...(state === 'queued' || state === 'sending' ? [[message.next_at, 'next attempt'] as const] : []),
  ]
}

export function sizeOf(bytes: number): string {
  if (bytes < 1024) return `${bytes} bytes`
  return bytes < 1024 ** 2 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1024 ** 2).toFixed(1)} MiB`
}
