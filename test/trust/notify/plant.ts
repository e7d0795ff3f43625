import { dirname, join } from 'node:path'
import { changed } from '../changed.js'

/** A fault that a loop has to catch, or the loop proves nothing. */
export type Fault = keyof typeof FAULTS

interface Planted {
  readonly what: string
  /** How the loop says it. */
  readonly shows: RegExp
  /** What is done to our own code. */
  readonly code: readonly [file: string, piece: RegExp, to: string]
  /** How long a lease is, and a provider is waited for. */
  readonly leaseSeconds?: number
  readonly timeoutMs?: number
}

export const FAULTS = {
  early: {
    what: 'hands a message over before its row is committed',
    shows: /and no row|is 2 messages/,
    code: [
      'sending.js',
      /(stored = await outbox\.put\()/,
      `if (mode === 'sync') {
         const { attachments } = ready;
         const claim = { mode, attachments, attempts: 0, claims: 0, losses: 0, provider: null, recipients: null, events: null, unknown_for: null, age: 0 };
         await mapConcurrently(ready.messages, 1, (message) => delivery.deliver({ ...message, ...claim }, since));
       }
       $1`,
    ],
  },
  unfenced: {
    what: 'whoever had a message may mark it, though it is taken by another',
    shows: /marked by one who does not have it/,
    code: ['outbox.js', /(const OWNED = `id = \$1 and )claims = \$2/, '$1claims >= $2'],
  },
  failover: {
    what: 'asks another provider when it is not known whether the first has sent it',
    shows: /by another provider although/,
    code: ['delivery.js', /if \(outcome !== 'unknown'\)\s+continue;/, 'continue;'],
  },
  impatient: {
    what: 'has a lease that is shorter than the wait for a provider',
    shows: /sent twice without a reason/,
    code: [
      'delivery.js',
      /new Deadline\(\(this\.components\.config\.queue\.leaseSeconds \* 1000\) \/ 2, since\)/,
      'new Deadline(60_000, since)',
    ],
    leaseSeconds: 2,
    timeoutMs: 5000,
  },
  outside: {
    what: 'stores a message outside of the transaction that it belongs to',
    shows: /never committed/,
    code: [
      'operations.js',
      /(outbox\.put\(messages, 'queue', \[\], config\.queue\.leaseSeconds), call\.transaction/,
      '$1',
    ],
  },
} as const satisfies Record<string, Planted>

export async function plant(fault: Fault | undefined): Promise<{
  readonly notify: object
  readonly leaseSeconds?: number
  readonly timeoutMs?: number
  remove(): Promise<void>
}> {
  if (fault === undefined) return { notify: {}, remove: async () => {} }
  const { code, ...settings }: Planted = FAULTS[fault]
  const [name, piece, to] = code
  const { file, remove } = await changed(`plugins/notify/${name}`, piece, to)
  return { notify: { use: join(dirname(file), 'index.js') }, ...settings, remove }
}
