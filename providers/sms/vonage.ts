import type { SMS } from '@vonage/sms'
import { defineProvider, SendError, setting } from 'rowhouse'
import { apiUrl, baseOf, createApi, secret, timeoutMs, unreadable } from '../api.js'
import { receiptOf } from './vonage/answer.js'
import { readReceipt } from './vonage/delivery.js'

/** Tested versions. */
const PACKAGES = ['@vonage/auth@1.15.0', '@vonage/sms@1.21.0']

/** Sends through the SMS API of Vonage with its packages. Requests use the server's own HTTP client. */
export default defineProvider({
  kind: 'sms',
  name: 'vonage',
  config: {
    type: 'object',
    required: ['apiKey', 'apiSecret', 'from'],
    properties: {
      apiKey: secret('API key of the account.'),
      apiSecret: secret('API secret of the account.'),
      from: setting.text('Sender: a phone number of the account (digits only) or an alphanumeric name.'),
      signatureSecret: secret('Signature secret of the account. Without it, delivery receipts are disabled.'),
      signatureMethod: setting.choice(
        ['sha256', 'sha512'],
        'sha256',
        'HMAC algorithm that the account uses to sign delivery receipts.',
      ),
      url: apiUrl('https://rest.nexmo.com'),
      timeoutMs,
    },
  },
  async create({ apiKey, apiSecret, from, signatureSecret, signatureMethod, url, timeoutMs }) {
    const { Auth, SMS, SMSFailure, TypeEnum } = await load()
    const restHost = baseOf(url)
    // The package looks for a file with the name of the key, and newer versions of Node.js warn about an undefined
    // name.
    const auth = new Auth({ apiKey, apiSecret, privateKey: '' })
    // Vonage reports errors of a message with status 200.
    const api = createApi({ timeoutMs, secrets: [apiSecret, await auth.createBasicHeader()] }, () => false)
    return {
      async send(sms, signal) {
        const client = new SMS(auth, { restHost })
        let text = ''
        // The package's own client has no size limit, follows redirects, cannot be aborted, and puts the secret into
        // errors.
        client.sendRequest = async <T>(request: Parameters<SMS['sendRequest']>[0]) => {
          const { headers } = await client.addAuthenticationToRequest(request)
          const answer = await api.send(
            {
              url: request.url,
              headers: { ...(headers as Record<string, string>), 'content-type': 'application/json' },
              body: JSON.stringify(request.data),
            },
            signal,
          )
          text = answer.text
          return { config: request, request, data: answer.json as T, headers: {}, status: 200, statusText: '' }
        }
        const { messages } = await client
          .send({
            from,
            to: sms.countryCode + sms.to,
            text: sms.message,
            type: isGsm(sms.message) ? TypeEnum.TEXT : TypeEnum.UNICODE,
            clientRef: sms.id,
          })
          .catch((error: unknown) => {
            if (error instanceof SMSFailure) return error.getResponse()
            throw error instanceof SendError ? error : unreadable(text)
          })
        return receiptOf(messages, text)
      },
      events: signatureSecret ? (posted) => readReceipt(posted, signatureSecret, signatureMethod) : undefined,
      close: () => api.close(),
    }
  },
})

async function load() {
  try {
    const [{ Auth }, { SMS, SMSFailure, TypeEnum }] = await Promise.all([import('@vonage/auth'), import('@vonage/sms')])
    return { Auth, SMS, SMSFailure, TypeEnum }
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw cause
    throw new Error(`required packages are not installed: npm install ${PACKAGES.join(' ')}`, { cause })
  }
}

/** Characters of the 7-bit GSM 03.38 alphabet and its extension table. */
const LETTERS = new Set(
  '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?' +
    '¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà' +
    '\f^{}\\[~]|€',
)

/** Returns whether a text can be sent without Unicode encoding, which halves the capacity of a message. */
const isGsm = (text: string): boolean => Array.from(text).every((letter) => LETTERS.has(letter))
