import { createHmac, randomBytes } from 'node:crypto'
import { type Answer, type Asked, type FaultyServer, faultyServer } from './faulty-server.js'

export interface FakeTwilio extends FaultyServer {
  /** The messages that were taken, as resources of the API. */
  readonly messages: readonly Readonly<Record<string, string>>[]
}

/** The Messages resource of Twilio: takes what its reference says it takes, and nothing else. */
export async function fakeTwilio(
  t: Parameters<typeof faultyServer>[0],
  account: { readonly accountSid: string; readonly authToken: string },
): Promise<FakeTwilio> {
  const messages: Readonly<Record<string, string>>[] = []
  const basic = `Basic ${Buffer.from(`${account.accountSid}:${account.authToken}`).toString('base64')}`
  const server = await faultyServer(t, (asked) => {
    if (asked.headers['authorization'] !== basic) return failed(401, 20003, 'Authenticate')
    const path = `/2010-04-01/Accounts/${account.accountSid}/Messages.json`
    if (asked.method !== 'POST' || asked.url.pathname !== path || asked.url.search !== '') {
      return failed(404, 20404, 'The requested resource was not found')
    }
    const wrong = problem(asked)
    if (wrong !== undefined) return wrong
    const sid = `SM${randomBytes(16).toString('hex')}`
    messages.push({ ...Object.fromEntries(new URLSearchParams(asked.body)), sid })
    const resource = { sid, status: 'queued', num_segments: '1', error_code: null, account_sid: account.accountSid }
    return { status: 201, body: JSON.stringify(resource) }
  })
  return Object.assign(server, { messages })
}

/** What Twilio answers for a message that it did not take. */
export const failed = (status: number, code: number, message: string): Answer => ({
  status,
  body: JSON.stringify({ code, message, more_info: `https://www.twilio.com/docs/errors/${code}`, status }),
})

function problem({ headers, body }: Asked): Answer | undefined {
  if (headers['content-type'] !== 'application/x-www-form-urlencoded') return failed(415, 20415, 'Unsupported type')
  const form = new URLSearchParams(body)
  const known = ['To', 'Body', 'From', 'MessagingServiceSid', 'StatusCallback']
  for (const name of form.keys()) if (!known.includes(name)) return failed(400, 20001, `Unknown parameter ${name}`)
  if (new Set(form.keys()).size !== [...form.keys()].length) return failed(400, 20001, 'Parameter twice')
  if (!form.get('To')) return failed(400, 21604, "A 'To' phone number is required")
  if (!/^\+[1-9]\d{6,14}$/.test(form.get('To')!)) return failed(400, 21211, "Invalid 'To' Phone Number")
  if (!form.get('Body')) return failed(400, 21602, 'Message body is required')
  if (form.get('Body')!.length > 1600) return failed(400, 21617, 'The concatenated message body exceeds the limit')
  if (form.has('From') === form.has('MessagingServiceSid'))
    return failed(400, 21603, "A 'From' phone number is required")
  return undefined
}

/** The value of `X-Twilio-Signature` for what is posted to an address. */
export function twilioSignature(url: string, fields: Readonly<Record<string, string>>, token: string): string {
  let text = url
  for (const name of Object.keys(fields).toSorted()) text += name + fields[name]
  return createHmac('sha1', token).update(text, 'utf8').digest('base64')
}
