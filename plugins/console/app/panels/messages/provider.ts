import type { ProviderState } from 'rowhouse/plugins/notify'

/** A provider as `GET /v1/send/providers` describes it. */
export type Provider = ProviderState
export type Channel = 'email' | 'sms'
export type ProvidersByChannel = Readonly<Record<Channel, readonly Provider[]>>
