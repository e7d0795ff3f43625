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

/** An address that was read and checked: ASCII, `local@domain`, nothing that a header or an envelope could misread. */
export interface Mailbox {
  readonly address: string
  /** Without line breaks and control characters. */
  readonly name?: string
}

interface Envelope {
  /** Ours, a UUID, the same at every try: for `Message-ID`, and for a provider that sends what it knows only once. */
  readonly id: string
  readonly to: Mailbox
  readonly from: Mailbox
  readonly cc?: readonly Mailbox[]
  readonly bcc?: readonly Mailbox[]
  readonly replyTo?: Mailbox
  readonly attachments?: readonly Attachment[]
}
export interface Attachment {
  /** Without line breaks, control characters and slashes. */
  readonly filename: string
  /** `type/subtype`, perhaps with parameters. */
  readonly contentType: string
  readonly content: Buffer
}

export interface Mail extends Envelope {
  readonly subject: string
  /** At least one of `text` and `html` is present. */
  readonly text?: string
  readonly html?: string
}

/** A mail that the provider makes of a template it keeps. */
export interface TemplateMail extends Envelope {
  readonly template: string
  /** Each name once. */
  readonly content: readonly { readonly name: string; readonly content: string }[]
}

export interface Sms {
  /** Ours, a UUID, the same at every try. */
  readonly id: string
  /** National number, digits only. */
  readonly to: string
  /** Calling code, digits only. */
  readonly countryCode: string
  readonly message: string
}

/** What senders of every kind have. A method or property that is absent is a capability that the provider lacks. */
interface Sender {
  /**
   * For so long after it first got a message the provider knows it by its `id`, and sends it once however often it is
   * asked. Absent: a message that may have been sent is sent again, or not, as its sender wished.
   */
  readonly sendsOnceForSeconds?: number
  /** It sends nothing anywhere: what it took stays to be read here. */
  readonly catches?: boolean
  /**
   * Reads what the provider posts about messages it took. Absent: it is not configured to, and the address does not exist.
   * @throws ServiceError 401 when the provider did not make it, 400 when it cannot be read
   */
  events?(posted: PostedEvents): Promise<readonly DeliveryEvent[]> | readonly DeliveryEvent[]
  close?(): Promise<void>
}

/**
 * Sends email. A send is over when the provider has taken the message.
 * @throws SendError. Any other error counts as one that leaves it unknown whether the message was sent.
 */
export interface EmailSender extends Sender {
  /** It may send from addresses of these domains only. Absent: of any. */
  readonly domains?: readonly string[]
  send(mail: Mail, signal: AbortSignal): Promise<Receipt>
  sendTemplate?(mail: TemplateMail, signal: AbortSignal): Promise<Receipt>
}

/** Sends SMS; as `EmailSender`. */
export interface SmsSender extends Sender {
  send(sms: Sms, signal: AbortSignal): Promise<Receipt>
}

export interface PostedEvents {
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly query: Readonly<Record<string, string | undefined>>
  readonly body: Buffer
}

/** What became of a message after the provider took it. */
export interface DeliveryEvent {
  /** `Receipt.id` of the message. */
  readonly id: string
  /** Our id of the message, where the provider gives it back. */
  readonly message?: string
  /** `bounced`: it never will be delivered; `deferred`: not yet; `complained`: the reader called it spam. */
  readonly kind: 'delivered' | 'deferred' | 'bounced' | 'complained'
  /** Where it was to go; email only. */
  readonly address?: string
  /** The address takes no mail any more, whatever is in it. */
  readonly permanent?: boolean
  /** The provider's words. */
  readonly detail: string
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
  /** As `put`, of a few bytes that are all here, in pieces. They are sooner there without a stream. */
  write?(key: string, pieces: readonly Buffer[], signal: AbortSignal): Promise<void>
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

/**
 * A PostgreSQL for a project that names none. The command line loads the built-in one, `providers/database/embedded`;
 * it is not a kind that a configuration can choose.
 */
export interface DatabaseProvider {
  /** Describes what exists in a data directory, without starting, creating or repairing anything. */
  inspect(dataDir: string): Promise<DatabaseState>
  /**
   * Starts the database of a data directory, creates it on the first start, or adopts a server that already runs there.
   * @throws Error that says what to do; also when another Rowhouse uses the data directory
   */
  start(options: DatabaseStart): Promise<StartedDatabase>
}

export interface DatabaseStart {
  /** Rowhouse's data directory, e.g. ./.rowhouse; created when absent. */
  readonly dataDir: string
  /** Receives a message at each slow step. */
  readonly progress?: (message: string) => void
}

export interface StartedDatabase {
  /** A superuser's, for migrations and administration: `postgresql://rowhouse:...@127.0.0.1:port/rowhouse`. A secret. */
  readonly url: string
  /** For the server: a login that owns the database and is not a superuser. A secret. */
  readonly serverUrl: string
  /** e.g. `18.4` */
  readonly version: string
  /** The server already ran, because the Rowhouse that started it was killed. */
  readonly adopted: boolean
  /**
   * Waits until the server ends without `stop`: because it was killed, or ran out of memory.
   * @returns the last lines that it logged
   */
  died(): Promise<readonly string[]>
  /**
   * Starts a server that died again, on the same port, so that `url` stays valid.
   * @throws Error that says what to do
   */
  restart(): Promise<void>
  /** Disconnects clients and resolves when the server's process has ended. */
  stop(): Promise<void>
}

export interface DatabaseState {
  /** Absolute. */
  readonly dataDir: string
  /** Folder of the cluster, and the major version that created it; `undefined` before the first start. */
  readonly cluster: { readonly folder: string; readonly major: number } | undefined
  /** The Rowhouse that uses the data directory. */
  readonly heldBy: { readonly pid: number } | undefined
  /** The PostgreSQL that runs on it. The URL is a superuser's, and a secret. */
  readonly server: { readonly pid: number; readonly port: number; readonly url: string } | undefined
  /** What a start would use, or why it would fail. */
  readonly binaries: PostgresBinaries | { readonly problem: string }
  /** Folders outside of the data directory whose data directory is gone: safe to delete. */
  readonly orphans: readonly string[]
}

/** A PostgreSQL that runs on this machine. */
export interface PostgresBinaries {
  /** Folder of `postgres` and `initdb`. */
  readonly bin: string
  /** e.g. `18.4` */
  readonly version: string
  readonly major: number
}
