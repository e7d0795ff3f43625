import type { Readable } from 'node:stream'
import type { AskedServer } from '../observe/tracing.js'

/** Kinds of providers. Plugins add kinds by declaration merging on `rowhouse`. */
export interface ProviderKinds {
  email: EmailSender
  sms: SmsSender
  event: EventSender
  storage: ObjectStore
}

/** The result of a send; the body of a successful `/v1/send/*`. */
export interface Receipt {
  /** Reference assigned by the provider. */
  readonly id: string
  /** Details from the provider, as text. */
  readonly detail: string
  /** Email only: recipients with an outcome of their own. The provider accepted the mail for all others. */
  readonly recipients?: readonly RecipientOutcome[]
}

/**
 * What became of one recipient. `sent`: the provider accepted the mail for it; `postponed`: not sent, can be retried;
 * `refused`: not sent and permanently rejected; `unknown`: may have been sent, not retried alone.
 */
export interface RecipientOutcome {
  readonly address: string
  readonly outcome: 'sent' | 'postponed' | 'refused' | 'unknown'
  /** The provider's response about this recipient. */
  readonly detail: string
}

/** A validated address: ASCII `local@domain`, safe in headers and envelopes. */
export interface Mailbox {
  readonly address: string
  /** Display name without line breaks and control characters. */
  readonly name?: string
}

interface Envelope {
  /**
   * UUID of the message in Rowhouse, the same for every attempt. For `Message-ID`, and for providers that deduplicate.
   */
  readonly id: string
  /** No address occurs twice in `to`, `cc` and `bcc`, compared without case. */
  readonly to: Mailbox
  readonly from: Mailbox
  readonly cc?: readonly Mailbox[]
  readonly bcc?: readonly Mailbox[]
  /**
   * The recipients to send to, if not all. The headers still show all. Only providers with `sendsToSome` get it.
   */
  readonly only?: readonly string[]
  readonly replyTo?: Mailbox
  readonly attachments?: readonly Attachment[]
}
export interface Attachment {
  /** File name without line breaks, control characters and slashes. */
  readonly filename: string
  /** `type/subtype`, optionally with parameters. */
  readonly contentType: string
  readonly content: Buffer
}

export interface Mail extends Envelope {
  readonly subject: string
  /** At least one of `text` and `html` is present. */
  readonly text?: string
  readonly html?: string
}

/** A mail that the provider renders from a stored template. */
export interface TemplateMail extends Envelope {
  readonly template: string
  /** Merge variables. Names are unique. */
  readonly content: readonly { readonly name: string; readonly content: string }[]
}

export interface Sms {
  /** UUID of the message in Rowhouse, the same for every attempt. */
  readonly id: string
  /** National number, digits only. */
  readonly to: string
  /** Calling code, digits only. */
  readonly countryCode: string
  readonly message: string
}

/** Members shared by senders of every kind. An absent method or property is a capability that the provider lacks. */
interface Sender {
  /** The server that it connects to, for traces. Absent if it connects to none, or with `createApi`, which is traced itself. */
  readonly server?: AskedServer | undefined
  /**
   * Time in seconds for which the provider deduplicates messages by their `id`. If absent, the caller decides whether
   * to retry a message with an unknown outcome.
   */
  readonly sendsOnceForSeconds?: number
  /** Whether it delivers nothing, and only keeps or shows messages. Their state is then `caught`. */
  readonly catches?: boolean
  /**
   * Parses delivery events that the provider posts. Absent when not configured; the endpoint then does not exist.
   * @throws ServiceError 401 for a wrong signature, 400 for an invalid body
   */
  events?(posted: PostedEvents): Promise<readonly DeliveryEvent[]> | readonly DeliveryEvent[]
  close?(): Promise<void>
}

/**
 * Sends email. A send succeeds when the provider has accepted the message.
 * @throws SendError. Any other error means that the outcome is unknown.
 */
export interface EmailSender extends Sender {
  /** Allowed domains of sender addresses. Absent: any domain. */
  readonly domains?: readonly string[]
  /**
   * Whether it can send a mail to `only` some of its recipients. Without it, a postponed recipient is not retried after
   * another recipient got the mail.
   */
  readonly sendsToSome?: boolean
  /**
   * Returns why the provider would never accept a mail, by its documented limits, or undefined. If no provider can send
   * a mail, the request fails with 400, and nothing is stored.
   */
  problemWith?(mail: Mail | TemplateMail): string | undefined
  send(mail: Mail, signal: AbortSignal): Promise<Receipt>
  sendTemplate?(mail: TemplateMail, signal: AbortSignal): Promise<Receipt>
}

/** Sends SMS, with the same contract as `EmailSender`. */
export interface SmsSender extends Sender {
  send(sms: Sms, signal: AbortSignal): Promise<Receipt>
}

/** Something that happened, for other systems: a change of a row, for example. */
export interface OutgoingEvent {
  /** Id of the event in Rowhouse, the same for every attempt. */
  readonly id: string
  /** Name of the trigger that made it. */
  readonly trigger: string
  /** The event as a JSON object, with all digits of its numbers. */
  readonly body: string
}

/**
 * Delivers events. Each event is sent until a send succeeds, so that one may arrive twice.
 * @throws SendError: an event that is `refused` is never sent again, any other is. Any other error counts as `unknown`.
 */
export interface EventSender {
  /** The server that it connects to, for traces. Absent if it connects to none, or with `createApi`, which is traced itself. */
  readonly server?: AskedServer | undefined
  send(event: OutgoingEvent, signal: AbortSignal): Promise<Receipt>
  close?(): Promise<void>
}

export interface PostedEvents {
  /** Headers by lower-case name. */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly query: Readonly<Record<string, string | undefined>>
  readonly body: Buffer
}

/** What happened to a message after the provider accepted it. */
export interface DeliveryEvent {
  /** `Receipt.id` of the message. */
  readonly id: string
  /** Id of the message in Rowhouse, if the provider returns it. */
  readonly message?: string
  /** `bounced`: permanently undeliverable; `deferred`: delayed; `complained`: the recipient reported spam. */
  readonly kind: 'delivered' | 'deferred' | 'bounced' | 'complained'
  /** Recipient address; email only. */
  readonly address?: string
  /** Whether the address rejects all mail permanently. */
  readonly permanent?: boolean
  /** Description from the provider. */
  readonly detail: string
}

/** An inclusive range, in bytes. */
export interface ByteRange {
  readonly start: number
  readonly end: number
}

/**
 * Stores bytes under keys that the server generates (never a client's file id). Each key is written once. Size, type
 * and owner are stored in the database. An absent method is a capability that the store lacks.
 */
export interface ObjectStore {
  /** The server that it connects to, for traces. Absent if it connects to none, or with `createApi`, which is traced itself. */
  readonly server?: AskedServer | undefined
  /**
   * Resolves when the bytes are durable. Fails and stores nothing if the key exists, the body ends early, or `signal`
   * aborts. If the store is unreachable, this and the other methods fail with ServiceError 503 `storage_unavailable`;
   * call `delete` until it succeeds to remove what may have been stored.
   */
  put(key: string, body: Readable, signal: AbortSignal): Promise<{ readonly size: number }>
  /** Stores a few bytes like `put`. Faster, because it needs no stream. */
  write?(key: string, pieces: readonly Buffer[], signal: AbortSignal): Promise<void>
  /** Fails with an error whose `code` is `ENOENT` when the key does not exist. */
  get(key: string, range: ByteRange | undefined, signal: AbortSignal): Promise<Readable>
  /**
   * Returns these bytes, or as many of them as exist, in one buffer. Faster than `get` for a few bytes, because it
   * needs no stream.
   */
  read?(key: string, range: ByteRange, signal: AbortSignal): Promise<Buffer>
  /** Deletes an object and any remains of an upload to its key. Succeeds if the key does not exist. */
  delete(key: string): Promise<void>
  /** Lists all objects in any order. For checks against the database, never for requests. */
  list?(signal: AbortSignal): AsyncIterable<StoredObject>
  /** Returns a URL where anyone can download the object until it expires, without this server. */
  signedUrl?(key: string, options: SignedUrlOptions): Promise<string>
  /** Returns the absolute path of the object, for a proxy on the same machine to send. */
  path?(key: string): string
  close?(): Promise<void>
}

export interface StoredObject {
  readonly key: string
  /** Size in bytes. */
  readonly size: number
}

/** Response headers of a signed URL. */
export interface SignedUrlOptions {
  readonly expiresInSeconds: number
  readonly contentType: string
  /** `Content-Disposition`, if any. */
  readonly disposition?: string
}

/**
 * Runs PostgreSQL for a project that configures no database. The command line loads the built-in provider
 * `providers/database/embedded`; a configuration cannot choose this kind.
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
  /** Superuser URL for migrations and administration: `postgresql://rowhouse:...@127.0.0.1:port/rowhouse`. Secret. */
  readonly url: string
  /** URL for the server: a login that owns the database and is not a superuser. Secret. */
  readonly serverUrl: string
  /** e.g. `18.4` */
  readonly version: string
  /** Whether the server was running already, because the Rowhouse that started it was killed. */
  readonly adopted: boolean
  /**
   * Waits until the server ends without `stop`, e.g. because it was killed or ran out of memory.
   * @returns its last log lines
   */
  died(): Promise<readonly string[]>
  /**
   * Restarts a server that has died, on the same port, so that `url` stays valid.
   * @throws Error that says what to do
   */
  restart(): Promise<void>
  /** Disconnects clients and stops the server. Resolves when its process has ended. */
  stop(): Promise<void>
}

export interface DatabaseState {
  /** Absolute path. */
  readonly dataDir: string
  /** Folder of the cluster, and the major version that created it; `undefined` before the first start. */
  readonly cluster: { readonly folder: string; readonly major: number } | undefined
  /** The Rowhouse process that uses the data directory. */
  readonly heldBy: { readonly pid: number } | undefined
  /** The running PostgreSQL. `url` is a superuser's, `serverUrl` the server's, and both are secret. */
  readonly server:
    | { readonly pid: number; readonly port: number; readonly url: string; readonly serverUrl: string }
    | undefined
  /** The binaries for a start, or the problem that would prevent it. */
  readonly binaries: PostgresBinaries | { readonly problem: string }
  /** Leftover folders whose data directory was deleted. They can be deleted. */
  readonly orphans: readonly string[]
}

/** A PostgreSQL installed on this machine. */
export interface PostgresBinaries {
  /** Folder of `postgres` and `initdb`. */
  readonly bin: string
  /** e.g. `18.4` */
  readonly version: string
  readonly major: number
}

/**
 * The outcome of a failed send. `refused`: not sent and permanently rejected; `retry`: not sent, can be retried here or
 * with another provider; `unknown`: may have been sent.
 */
export type Outcome = 'refused' | 'retry' | 'unknown'

/** Explains why a send failed. Its texts are for an admin and contain no secrets. */
export class SendError extends Error {
  override readonly name = 'SendError'
  /** Response of the provider, if any. */
  readonly response?: string
  /** Whether the response does not match the provider's documentation. */
  readonly unreadable: boolean
  /** Delay in seconds, if the provider requests one. */
  readonly retryAfter?: number
  /** Recipients of a mail with another outcome than the error's, or with a response of their own. */
  readonly recipients?: readonly RecipientOutcome[]
  /** Whether the provider refused the message for a limit of its own, such as a size. Another provider may accept it. */
  readonly limit: boolean
  /** Whether the receiver of events wants no more of this trigger. */
  readonly gone: boolean

  constructor(
    readonly outcome: Outcome,
    message: string,
    { cause, response, unreadable = false, retryAfter, recipients, limit = false, gone = false }: SendDetails = {},
  ) {
    super(message, cause === undefined ? undefined : { cause })
    this.unreadable = unreadable
    this.response = response === undefined ? undefined : shortLine(response)
    this.retryAfter = retryAfter
    if (recipients !== undefined) this.recipients = recipients
    this.limit = limit
    this.gone = gone
  }
}

interface SendDetails {
  readonly cause?: unknown
  readonly response?: string
  readonly unreadable?: boolean
  readonly retryAfter?: number
  readonly recipients?: readonly RecipientOutcome[]
  readonly limit?: boolean
  readonly gone?: boolean
}

const MOST = 200

/** Returns foreign text as a short line without control characters. */
export function shortLine(text: string): string {
  const line = text.replaceAll(/[\p{Cc}\s]+/gu, ' ').trim()
  return line.length > MOST ? `${line.slice(0, MOST)}...` : line
}

interface Recipients {
  readonly to: Mailbox
  readonly cc?: readonly Mailbox[]
  readonly bcc?: readonly Mailbox[]
}

/** Returns an address in the form in which addresses are compared: servers and APIs ignore the case. */
export const comparable = (address: string): string => address.toLowerCase()

/**
 * Returns a mail in which no address occurs twice: of several, the first in `to`, `cc` and `bcc` stays. Some APIs refuse
 * such a mail, and others send it twice.
 */
export function withoutDuplicates<M extends Recipients>(mail: M): M {
  const seen = new Set<string>([comparable(mail.to.address)])
  const isNew = ({ address }: Mailbox) => seen.size < seen.add(comparable(address)).size
  const [cc, bcc] = [mail.cc?.filter(isNew), mail.bcc?.filter(isNew)]
  if (cc?.length === mail.cc?.length && bcc?.length === mail.bcc?.length) return mail
  return { ...mail, ...(cc ? { cc } : {}), ...(bcc ? { bcc } : {}) }
}

/** Returns the addresses of a mail that its provider is to send to. */
export function recipientsOf({ only, ...mail }: Recipients & { readonly only?: readonly string[] }): readonly string[] {
  const { to, cc = [], bcc = [] } = withoutDuplicates(mail)
  const all = [to, ...cc, ...bcc].map(({ address }) => address)
  if (only === undefined) return all
  const wanted = new Set(only.map(comparable))
  return all.filter((address) => wanted.has(comparable(address)))
}
