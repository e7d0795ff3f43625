import { recipientsOf, type Sms } from 'rowhouse'
import type { NotifyConfig } from './config.js'
import type { ProviderMessage } from './message.js'
import type { Outbox } from './outbox.js'
import type { Suppression } from './suppression.js'

/** The reason why no provider may send a message. */
interface LimitExceeded {
  /** Error code of the answer. */
  readonly code: 'suppressed' | 'not_allowed' | 'too_many'
  readonly why: string
}

/**
 * Checks the suppression list for an email, and calling codes and limits for an SMS.
 * @param only the recipients of an email who are still to get it; undefined for all
 */
export async function checkSendLimits(
  message: ProviderMessage,
  only: readonly string[] | undefined,
  { outbox, suppression, config }: { outbox: Outbox; suppression: Suppression; config: NotifyConfig },
): Promise<LimitExceeded | undefined> {
  if ('countryCode' in message) return checkSmsLimits(message, outbox, config)
  const found = await suppression.find(recipientsOf(only === undefined ? message : { ...message, only }))
  return found && { code: 'suppressed', why: `${found.address} is suppressed: ${found.reason}` }
}

async function checkSmsLimits(sms: Sms, outbox: Outbox, config: NotifyConfig): Promise<LimitExceeded | undefined> {
  const { countryCodes, perNumberPerHour, perDay } = config.sms
  const { id, countryCode } = sms
  if (countryCodes.length > 0 && !countryCodes.includes(countryCode)) {
    const why = `calling code ${countryCode} is not allowed (plugins.notify.sms.countryCodes)`
    return { code: 'not_allowed', why }
  }
  const toNumber = perNumberPerHour > 0 ? await outbox.smsWithinHour(id) : -1
  if (toNumber >= perNumberPerHour) {
    const why = `this number got ${toNumber} messages within an hour (plugins.notify.sms.perNumberPerHour)`
    return { code: 'too_many', why }
  }
  const all = perDay > 0 ? await outbox.smsWithinDay(id) : -1
  if (all >= perDay)
    return { code: 'too_many', why: `${all} messages were sent within a day (plugins.notify.sms.perDay)` }
  return undefined
}
