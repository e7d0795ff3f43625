import type { NotifyConfig } from './config.js'
import type { Message } from './message.js'
import type { Outbox } from './outbox.js'
import type { Suppression } from './suppression.js'

/** Why a message must not be sent, whoever would take it. */
export interface Stop {
  /** As in answers. */
  readonly code: 'suppressed' | 'not_allowed' | 'too_many'
  readonly why: string
}

interface Parts {
  readonly outbox: Outbox
  readonly suppression: Suppression
  readonly config: NotifyConfig
}

export async function stopOf(message: Message, { outbox, suppression, config }: Parts): Promise<Stop | undefined> {
  if (message.channel === 'email') {
    const { to, cc = [], bcc = [] } = 'mail' in message ? message.mail : message.template
    const found = await suppression.find([to, ...cc, ...bcc].map(({ address }) => address))
    return found && { code: 'suppressed', why: `${found.address} gets no mail: ${found.reason}` }
  }
  const { countryCodes, perNumberPerHour, perDay } = config.sms
  const { id, countryCode } = message.sms
  if (countryCodes.length > 0 && !countryCodes.includes(countryCode)) {
    const why = `calling code ${countryCode} is not among those allowed (plugins.notify.sms.countryCodes)`
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
