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
 * Keeps bytes under keys that the server made (never a client's file id). A key is written once. Size, type and owner
 * live in the database. A method that is absent is a capability that the store does not have.
 */
export interface ObjectStore {
  /**
   * Resolves when the bytes are durable. Fails, and leaves nothing, if the key exists, the body breaks off, or `signal`
   * aborts. A store that cannot be reached fails, here and below, with ServiceError 503 `storage_unavailable`; what it
   * has then is for `delete`, again until that succeeds.
   */
  put(key: string, body: Readable, signal: AbortSignal): Promise<{ readonly size: number }>
  /** Fails with an error whose `code` is `ENOENT` when the key does not exist. */
  get(key: string, range: ByteRange | undefined, signal: AbortSignal): Promise<Readable>
  /**
   * As `get`, in one piece: all of these bytes, or those of them that there are. For a few bytes, which are sooner there
   * without a stream.
   */
  read?(key: string, range: ByteRange, signal: AbortSignal): Promise<Buffer>
  /** Deleting what is not there succeeds. Takes along what an upload to that key has left behind. */
  delete(key: string): Promise<void>
  /** All there is, in any order: for a check against the database, never for a request. */
  list?(signal: AbortSignal): AsyncIterable<StoredObject>
  /** An address where anybody can get the object until it expires, without this server. */
  signedUrl?(key: string, options: SignedUrlOptions): Promise<string>
  /** Absolute path of the object, for a proxy on the same machine to send. */
  path?(key: string): string
  close?(): Promise<void>
}

export interface StoredObject {
  readonly key: string
  /** In bytes. */
  readonly size: number
}

/** What the answer of a signed address says of the object. */
export interface SignedUrlOptions {
  readonly expiresInSeconds: number
  readonly contentType: string
  /** `Content-Disposition`; absent: none. */
  readonly disposition?: string
}
