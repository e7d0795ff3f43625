import type { Row } from './audit.js'
import { type Answer, ask } from './clients.js'

/** What a client wants to be sent. */
interface Wanted {
  readonly sub: string
  readonly queue: boolean
  readonly atMostOnce: boolean
  readonly to: string
  /** A client with one repeats the request until it has an answer. */
  readonly key?: string
}

interface Entry {
  readonly wanted: Wanted
  /** The first that says what became of the request. */
  answer?: Answer
}

const REPEATS = 50
const AT_ONCE = 16

/** What clients asked for, and what they were told. */
export class Ledger {
  private readonly entries: Entry[] = []
  private readonly url: () => Promise<string>
  private readonly violations: string[] = []

  constructor(url: () => Promise<string>) {
    this.url = url
  }

  get acknowledged(): number {
    return this.entries.filter(({ answer }) => answer?.status === 200).length
  }

  /**
   * The n-th message of many kinds: some wait for the answer, some may be sent once at most, some nobody takes. A client
   * without a key that gets no answer sends another message.
   */
  async send(n: number): Promise<void> {
    const queue = n % 5 !== 4
    const kind = {
      queue,
      atMostOnce: n % 4 === 1,
      to: n % 53 === 7 ? 'refused@example.com' : 'reader@example.com',
    }
    if (!queue || n % 3 === 0) {
      const entry: Entry = { wanted: { sub: `message ${n}`, ...kind, key: `key-${n}` } }
      this.entries.push(entry)
      const answer = await this.patiently(entry.wanted)
      // Whoever was at it may be dead, which is settled later.
      if (answer && answer.status !== 409) entry.answer = answer
      return
    }
    for (let i = 0, answer: Answer | undefined; i < REPEATS && !answer; i++) {
      const wanted = { sub: `message ${n}.${i}`, ...kind }
      answer = await this.ask(wanted)
      this.entries.push({ wanted, ...(answer ? { answer } : {}) })
    }
  }

  /** When nothing is under way any more: what is answered to whoever asks again. */
  async repeatAll(): Promise<void> {
    const left = this.entries.filter(({ wanted }) => wanted.key !== undefined)
    const client = async () => {
      for (let entry = left.pop(); entry; entry = left.pop()) {
        for (const _ of [1, 2]) {
          const answer = await this.patiently(entry.wanted)
          if (answer) entry.answer ??= answer
          if (JSON.stringify(answer) !== JSON.stringify(entry.answer)) {
            this.violations.push(
              `${entry.wanted.sub}: answered ${JSON.stringify(entry.answer)}, then ${JSON.stringify(answer)}`,
            )
          }
        }
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, client))
  }

  /** @returns where what was answered is not what there is */
  check(rows: readonly Row[]): string[] {
    const found = [...this.violations]
    const bySub = new Map<string, Row[]>()
    for (const row of rows) bySub.set(row.sub, [...(bySub.get(row.sub) ?? []), row])
    for (const { wanted, answer } of this.entries) {
      const of = bySub.get(wanted.sub) ?? []
      if (of.length > 1) found.push(`${wanted.sub}: is ${of.length} messages`)
      const [row] = of
      if (answer !== undefined) found.push(...differs(wanted, answer, row).map((each) => `${wanted.sub}: ${each}`))
    }
    return found
  }

  /** Until there is an answer. */
  private async patiently(wanted: Wanted): Promise<Answer | undefined> {
    for (let i = 0; i < REPEATS; i++) {
      const answer = await this.ask(wanted)
      if (answer) return answer
    }
    return undefined
  }

  private async ask({ sub, queue, atMostOnce, to, key }: Wanted): Promise<Answer | undefined> {
    const body = { to, from: 'shop@example.com', sub, text: 'Hello', queue, atMostOnce }
    const answer = await ask(
      `${await this.url()}/v1/send/email`,
      body,
      key === undefined ? {} : { 'Idempotency-Key': key },
    )
    // Held still, a server may have lost its database, and says so.
    if (answer?.status === 503) return undefined
    if (answer && !isExpected(answer)) this.violations.push(`${sub}: answered ${JSON.stringify(answer)}`)
    return answer
  }
}

/** It is sent or queued; it is being sent; it was not sent, or nobody knows. */
const isExpected = ({ status, body }: Answer): boolean =>
  status === 200 ||
  (status === 409 && body.code === 'in_progress') ||
  (status === 500 && (body.state === 'failed' || body.state === 'unknown'))

function differs({ queue }: Wanted, { status, body }: Answer, row: Row | undefined): string[] {
  if (row === undefined) return ['lost: it was answered, and there is no row']
  if (queue) return status === 200 && body.id === row.id ? [] : [`answered ${status}, ${body.id}, and is ${row.id}`]
  const told = status === 200 ? 'sent' : (body.state as string)
  if (told !== row.state) return [`answered ${told}, and is ${row.state}`]
  return told === 'sent' && body.id !== row.provider_id ? [`answered ${body.id}, and has ${row.provider_id}`] : []
}
