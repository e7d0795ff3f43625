import { createHmac, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import type { PostedEvents } from '../../core/host/contracts.js'

/** How a provider posts: body as it is, signed at a time, in seconds. */
export type Sign = (body: Buffer, seconds?: number) => PostedEvents

export const now = () => Math.floor(Date.now() / 1000)

/** SendGrid's signed event webhook, with a key of its own. */
export function sendgridSigner(): { readonly verificationKey: string; readonly signed: Sign } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return {
    verificationKey: publicKey.export({ format: 'der', type: 'spki' }).toString('base64'),
    signed: (body, seconds = now()) => ({
      headers: {
        'x-twilio-email-event-webhook-timestamp': `${seconds}`,
        'x-twilio-email-event-webhook-signature': sign(
          'sha256',
          Buffer.concat([Buffer.from(`${seconds}`), body]),
          privateKey,
        ).toString('base64'),
      },
      query: {},
      body,
    }),
  }
}

export const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`

/** An event as Mailgun posts it. */
export function mailgunEvent(
  event: unknown,
  signingKey: string,
  seconds: number | string = now(),
  token = randomBytes(25).toString('hex'),
): PostedEvents {
  const signature = createHmac('sha256', signingKey).update(`${seconds}${token}`).digest('hex')
  const posted = { signature: { timestamp: `${seconds}`, token, signature }, 'event-data': event }
  return { headers: {}, query: {}, body: Buffer.from(JSON.stringify(posted)) }
}

export const resendSignature = (key: Buffer, seconds: number, body: Buffer) =>
  `v1,${createHmac('sha256', key).update(`msg_1.${seconds}.`).update(body).digest('base64')}`

/** Resend's webhook. */
export const resendSigner =
  (key: Buffer): Sign =>
  (body, seconds = now()) => ({
    headers: {
      'svix-id': 'msg_1',
      'svix-timestamp': `${seconds}`,
      'svix-signature': `v1,b3RoZXI= ${resendSignature(key, seconds, body)}`,
    },
    query: {},
    body,
  })
