/** A message as the API shows it, without its contents. */
export interface MessageRecord {
  readonly id: string
  readonly kind: 'email' | 'email-template' | 'sms'
  readonly state: 'queued' | 'sending' | 'sent' | 'failed' | 'unknown'
  readonly mode: 'queue' | 'sync'
  readonly to: string
  readonly from: string | null
  readonly from_name: string | null
  readonly sub: string | null
  readonly country_code: string | null
  /** How an SMS begins, until it was sent. */
  readonly message: string | null
  readonly template: string | null
  readonly provider: string | null
  readonly provider_id: string | null
  readonly detail: string | null
  readonly error: string | null
  readonly error_code: string | null
  readonly attempts: number
  readonly next_at: string
  readonly created_at: string
  readonly sent_at: string | null
  readonly delivery: 'delivered' | 'deferred' | 'bounced' | 'complained' | null
  readonly delivery_detail: string | null
  readonly delivery_at: string | null
}

const time = (column: string) => `to_json(${column}) #>> '{}' as ${column}`

export const MESSAGE_COLUMNS = `id::text, kind,
  case when mode = 'sync' and state = 'queued' then 'sending' else state end as state, mode, "to", "from", from_name, sub, country_code, template, provider,
  left(message, 100) as message, provider_id, detail, error, error_code, attempts, ${time('next_at')}, ${time('created_at')}, ${time('sent_at')}, delivery,
  delivery_detail, ${time('delivery_at')}`
