import { comparable, type DeliveryEvent, type RecipientOutcome } from 'rowhouse'
import type { MessageRecord } from './message-list.js'
import { finalState, type Recipients } from './recipients.js'

/** An event that a provider has posted about a message. */
export interface ProviderEvent extends Pick<DeliveryEvent, 'id' | 'kind' | 'detail' | 'address'> {
  readonly provider: string
}

/** What is known of a message. */
export interface Standing {
  readonly state: MessageRecord['state']
  readonly recipients: Recipients
  /** Whether a provider may have sent it. */
  readonly uncertain: boolean
  /** The last event that proved that somebody got it. */
  readonly proof?: ProviderEvent
}

const STAGES: readonly DeliveryEvent['kind'][] = ['deferred', 'delivered', 'bounced', 'complained']

/** Events arrive in any order. Returns whether an event is not of an earlier stage than the last one. */
export const isNotEarlier = (kind: DeliveryEvent['kind'], last: DeliveryEvent['kind'] | null | undefined): boolean =>
  STAGES.indexOf(kind) >= (last ? STAGES.indexOf(last) : 0)

/**
 * Returns what is known after an event about a recipient, or without an address about all that may have got the message. No
 * outcome goes back: a recipient that got the message stays so, and a message that was sent is not sent again.
 */
export function afterEvent(before: Standing, event: ProviderEvent): Standing {
  const { state, recipients, uncertain } = before
  if (state === 'sent' || state === 'caught') return before
  if (recipients === null) {
    const outcome = state === 'failed' ? 'refused' : state === 'queued' && !uncertain ? 'postponed' : 'unknown'
    return proves(event, outcome) ? { state: 'sent', recipients, uncertain: false, proof: event } : before
  }
  let { proof } = before
  const after = recipients.map((each) => {
    const named = event.address !== undefined && comparable(event.address) === comparable(each.address)
    if (event.address !== undefined && !named) return each
    const proven = named ? proves(event, each.outcome) : each.outcome === 'unknown'
    if (proven) proof = event
    const told = named && isNotEarlier(event.kind, each.delivery)
    return {
      ...each,
      ...(proven ? { outcome: 'sent' as const } : {}),
      ...(told ? { delivery: event.kind, delivery_detail: event.detail } : {}),
    }
  })
  const known = { uncertain: uncertain && after.some(({ outcome }) => outcome === 'unknown'), ...(proof && { proof }) }
  const final = finalState(after)
  if (final === 'sent') return { state: 'sent', recipients: null, ...known }
  return { state: state === 'queued' ? state : final, recipients: after, ...known }
}

/** A provider posts events about what it has accepted. One about a recipient that it refused may only repeat that. */
const proves = ({ kind }: ProviderEvent, outcome: RecipientOutcome['outcome']): boolean =>
  outcome === 'unknown' || (outcome !== 'sent' && (kind === 'delivered' || kind === 'complained'))
