/** A provider as `GET /v1/send/providers` describes it. */
export interface Provider {
  readonly name: string
  readonly position: number | null
  readonly catches: boolean
  readonly templates: boolean
  readonly domains: readonly string[] | null
  readonly events: boolean
  readonly per_second: number | null
  readonly skipped_seconds: number | null
}
export type Channel = 'email' | 'sms'
export type ProvidersByChannel = Readonly<Record<Channel, readonly Provider[]>>
