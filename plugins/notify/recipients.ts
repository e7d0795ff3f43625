import { comparable, type DeliveryEvent, type RecipientOutcome } from 'rowhouse'

/**
 * The outcome of each recipient of a mail, in the order of `to`, `cc` and `bcc`; null while they have none of their own,
 * but that of the message.
 */
export type Recipients =
  | readonly (RecipientOutcome & {
      /** From the events of the provider. */
      readonly delivery?: DeliveryEvent['kind']
      readonly delivery_detail?: string
    })[]
  | null

/**
 * Returns the outcomes after an attempt.
 * @param known from earlier attempts
 * @param uncertain whether an earlier attempt may have sent the message; then all may have got it, unless `known` says more
 * @param addressed whom the provider was to send to
 * @param reported by the provider; `rest` is the outcome of the others
 */
export function afterAttempt(
  known: Recipients,
  uncertain: boolean,
  addressed: readonly string[],
  reported: readonly RecipientOutcome[],
  rest: Omit<RecipientOutcome, 'address'>,
): Recipients {
  if (known === null && reported.length === 0) return null
  const own = byAddress(reported)
  const latest = byAddress(addressed.map((address) => ({ ...(own.get(comparable(address)) ?? rest), address })))
  if (known === null && !uncertain) return [...latest.values()]
  const earlier = known ?? addressed.map((address) => ({ address, outcome: 'unknown', detail: '' }) as const)
  return earlier.map((before) => {
    const after = latest.get(comparable(before.address))
    if (after === undefined) return before
    // A recipient that may have got the mail still may have, whatever a repeated attempt says; a refusal is final.
    const stays = before.outcome === 'unknown' || (before.outcome === 'refused' && after.outcome === 'postponed')
    return stays && after.outcome !== 'sent' ? before : { ...before, ...after }
  })
}

const byAddress = (outcomes: readonly RecipientOutcome[]) =>
  new Map(outcomes.map((each) => [comparable(each.address), each]))

/**
 * Returns the recipients that the next attempt sends to; undefined for all.
 * @param uncertain whether the message is repeated because its last outcome is unknown
 */
export const openRecipients = (recipients: Recipients, uncertain: boolean): readonly string[] | undefined =>
  recipients
    ?.filter(({ outcome }) => outcome === 'postponed' || (uncertain && outcome === 'unknown'))
    .map(({ address }) => address)

/** Returns whether a recipient got the mail, or may have, so that it must not go to all again. */
export const someGotIt = (recipients: Recipients): boolean =>
  recipients?.some(({ outcome }) => outcome === 'sent' || outcome === 'unknown') ?? false

/** Returns the recipients for a message whose last attempt may have sent it. */
export const maybeSent = (recipients: Recipients, detail: string): Recipients =>
  recipients?.map((each) => (each.outcome === 'postponed' ? { ...each, outcome: 'unknown', detail } : each)) ?? null

/** Returns the state of a message that is not tried again. */
export function finalState(recipients: NonNullable<Recipients>): 'sent' | 'partly_sent' | 'failed' | 'unknown' {
  const has = (wanted: RecipientOutcome['outcome']) => recipients.some(({ outcome }) => outcome === wanted)
  if (has('sent')) return recipients.every(({ outcome }) => outcome === 'sent') ? 'sent' : 'partly_sent'
  return has('unknown') ? 'unknown' : 'failed'
}

/** Describes the recipients that did not get the mail. */
export const describeRecipients = (recipients: NonNullable<Recipients>): string =>
  recipients
    .filter(({ outcome }) => outcome !== 'sent')
    .map(({ address, outcome, detail }) => `${address} ${WORDS[outcome]}${detail === '' ? '' : ` (${detail})`}`)
    .join(', ')

const WORDS = {
  sent: 'got it',
  postponed: 'was postponed',
  refused: 'was refused',
  unknown: 'may have got it',
} as const
