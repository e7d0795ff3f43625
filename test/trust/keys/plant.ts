import { dirname, join } from 'node:path'
import { changed } from '../changed.js'

/** A fault that the loop has to catch, or it proves nothing. */
export type Fault = keyof typeof FAULTS

interface Planted {
  readonly what: string
  /** How the loop says it. */
  readonly shows: RegExp
  /** The plugin that gets it. */
  readonly plugin: 'filestore' | 'notify'
  /** What is done to our own code. */
  readonly code: readonly [file: string, piece: RegExp, to: string]
}

/** Where `send_email` gets the transaction. */
const STORED = /(outbox\.put\(messages, 'queue', \[\], config\.queue\.leaseSeconds), call\.transaction/

export const FAULTS = {
  'file outside': {
    what: 'attaches a file outside of the transaction that it belongs to',
    shows: /refused, and the answer is 200/,
    plugin: 'filestore',
    code: ['attach.js', /data\.transaction\(call, /, 'data.transaction({ ...call, transaction: undefined }, '],
  },
  'file early': {
    what: 'forgets an upload before it is a file',
    shows: /has no pending upload/,
    plugin: 'filestore',
    code: ['attach.js', /(pending\.take\(id, owner), inner\.transaction/, '$1'],
  },
  'mail outside': {
    what: 'stores a mail outside of the transaction that it belongs to',
    shows: /a mail without an answer/,
    plugin: 'notify',
    code: ['operations.js', STORED, '$1'],
  },
  'mail twice': {
    what: 'stores a mail again when a request is repeated after a kill',
    shows: /: [2-9] mails/,
    plugin: 'notify',
    code: ['operations.js', STORED, '$1).then(() => new Promise((resolve) => setTimeout(resolve, 1000))'],
  },
} as const satisfies Record<string, Planted>

/** Returns the configuration of plugins with the fault in one of them. */
export async function plant(fault: Fault | undefined): Promise<{
  readonly plugins: Readonly<Record<string, { readonly use: string }>>
  remove(): Promise<void>
}> {
  if (fault === undefined) return { plugins: {}, remove: async () => {} }
  const { plugin, code }: Planted = FAULTS[fault]
  const [name, piece, to] = code
  const { file, remove } = await changed(`plugins/${plugin}/${name}`, piece, to)
  return { plugins: { [plugin]: { use: join(dirname(file), 'index.js') } }, remove }
}
