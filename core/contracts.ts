import type { Readable } from 'node:stream'

/** Kinds of provider. A plugin that needs another kind adds it by declaration merging on `rowhouse`. */
export interface ProviderKinds {
  email: EmailSender
  sms: SmsSender
  storage: ObjectStore
}

/** What a send reports back; the body of a successful `/v1/send/*`. */
export interface Receipt {
  /** The provider's reference. */
  readonly id: string
  /** The provider's details, as text. */
  readonly detail: string
}

export interface Mail {
  readonly to: string
  readonly from: string
  readonly fromName?: string
  readonly subject: string
  /** At least one of `text` and `html` is present. */
  readonly text?: string
  readonly html?: string
}

export interface TemplateMail {
  readonly to: string
  readonly from: string
  readonly fromName?: string
  readonly template: string
  readonly content: readonly { readonly name: string; readonly content: string }[]
}

export interface Sms {
  /** National number, digits only. */
  readonly to: string
  /** Calling code, digits only. */
  readonly countryCode: string
  readonly message: string
}

/** Sends email. A method that is absent is a capability that the provider does not have. */
export interface EmailSender {
  send(mail: Mail, signal: AbortSignal): Promise<Receipt>
  sendTemplate?(mail: TemplateMail, signal: AbortSignal): Promise<Receipt>
  close?(): Promise<void>
}

export interface SmsSender {
  send(sms: Sms, signal: AbortSignal): Promise<Receipt>
  close?(): Promise<void>
}

/** Inclusive, in bytes. */
export interface ByteRange {
  readonly start: number
  readonly end: number
}

/**
 * Keeps bytes under keys that the server made (never a client's file id). A key is written once.
 * There is no `list` or `stat`: size, type and owner live in the database.
 */
export interface ObjectStore {
  /** Resolves when the bytes are durable. Fails if the key exists. */
  put(key: string, body: Readable, signal: AbortSignal): Promise<{ readonly size: number }>
  /** Fails with an error whose `code` is `ENOENT` when the key does not exist. */
  get(key: string, range: ByteRange | undefined, signal: AbortSignal): Promise<Readable>
  /** Deleting what is not there succeeds. */
  delete(key: string): Promise<void>
  close?(): Promise<void>
}
