import { grouped, HARNESS, type Row, type Version } from './audit.js'
import type { Asked } from './fake-provider.js'
import type { Life } from './servers.js'

/** All that is known in the end. */
export interface Evidence {
  readonly rows: readonly Row[]
  readonly versions: ReadonlyMap<string, readonly Version[]>
  readonly asked: readonly Asked[]
  readonly lives: readonly Life[]
  /** Whether the provider sends a message once that it is given twice. */
  readonly idempotent: boolean
  /** How long a provider is waited for. */
  readonly timeoutMs: number
  readonly leaseMs: number
}

/** Why a sender did not know that a message was accepted. */
export type Cause = 'no answer' | 'late' | 'killed' | 'held'

export interface Judgement {
  readonly violations: readonly string[]
  /** Messages that had their effect more than once, by why that is. */
  readonly doubles: Readonly<Partial<Record<Cause, number>>>
  /** Messages in each state. */
  readonly states: Readonly<Partial<Record<Row['state'], number>>>
}

/** Clocks of two processes, and whole milliseconds. */
const SLACK_MS = 5

/** What must never happen to a message, whatever happens to servers and provider. */
export function judge(evidence: Evidence): Judgement {
  const { rows, versions, asked } = evidence
  const violations: string[] = []
  const doubles: Partial<Record<Cause, number>> = {}
  const states: Partial<Record<Row['state'], number>> = {}
  const requests = grouped(asked)
  const stories = new Map(
    rows.map((row) => [row.id, new Story(row, versions.get(row.id) ?? [], requests.get(row.id) ?? [], evidence)]),
  )
  for (const [id, list] of requests) {
    if (list.some(({ ref }) => ref !== undefined) && !stories.has(id))
      violations.push(`${name(list[0])}: sent, and no row`)
  }
  for (const [, story] of stories) {
    const { state } = story.row
    states[state] = (states[state] ?? 0) + 1
    violations.push(...story.violations().map((each) => `${story.row.sub}: ${each}`))
    const cause = story.double()
    if (cause === undefined) continue
    if (cause === 'none') violations.push(`${story.row.sub}: sent twice without a reason: ${story.told()}`)
    else doubles[cause] = (doubles[cause] ?? 0) + 1
  }
  return { violations, doubles, states }
}

const name = (asked: Asked | undefined) => asked?.sub ?? ''

/** One message: its versions, and what the provider was asked. */
class Story {
  readonly row: Row
  private readonly versions: readonly Version[]
  private readonly asked: readonly Asked[]
  private readonly lives: ReadonlyMap<string, Life>
  private readonly evidence: Evidence

  constructor(row: Row, versions: readonly Version[], asked: readonly Asked[], evidence: Evidence) {
    this.row = row
    this.versions = versions.filter(({ server }) => server !== HARNESS)
    this.asked = asked
    this.evidence = evidence
    this.lives = new Map(evidence.lives.map((life) => [life.name, life]))
  }

  private get accepted(): readonly Asked[] {
    return this.asked.filter(({ ref }) => ref !== undefined)
  }

  private get effects(): readonly Asked[] {
    return this.asked.filter(({ effect }) => effect)
  }

  /** For people. */
  told(): string {
    const asked = this.asked.map(
      ({ at, ...each }) => [at, `${each.server} asks ${each.account}: ${each.deed}`] as const,
    )
    const versions = this.versions.map(
      ({ at, ...each }) => [at, `${each.server} writes ${each.state} ${each.claims} ${each.provider ?? ''}`] as const,
    )
    const all = [...asked, ...versions].toSorted(([a], [b]) => a - b)
    const from = all[0]?.[0] ?? 0
    return all.map(([at, text]) => `${Math.round(at - from)} ms ${text}`).join(', ')
  }

  violations(): string[] {
    const { row, accepted, effects, evidence } = this
    const found: string[] = []
    if (row.state === 'queued' || row.state === 'sending') found.push(`never ends: ${row.state}`)
    if (row.state === 'sent') {
      if (accepted.length === 0) found.push('lost: it is said to be sent')
      else if (!accepted.some(({ ref, account }) => ref === row.provider_id && account === row.provider)) {
        found.push(`it has a reference that the provider did not give it: ${row.provider_id}`)
      }
    }
    // Each has one recipient, and no provider catches.
    if (row.state === 'partly_sent' || row.state === 'caught') found.push(`it cannot be ${row.state}`)
    if (row.state === 'failed' && (effects.length > 0 || !this.wasRefused()))
      found.push(`said to have failed: ${this.told()}`)
    if (row.state === 'unknown' && !this.isUnknown()) found.push(`unknown without a reason: ${this.told()}`)
    if (effects.length > 1) {
      if (evidence.idempotent) found.push(`sent ${effects.length} times: ${this.told()}`)
      else if (row.at_most_once || row.mode === 'sync') found.push(`sent more than once at most: ${this.told()}`)
      if (new Set(effects.map(({ account }) => account)).size > 1) {
        found.push(`sent by another provider although it may have been sent: ${this.told()}`)
      }
    }
    for (const [i, version] of this.versions.entries()) {
      if (i === 0 || version.state === 'sending') continue
      const claim = this.versions.slice(0, i).findLast(({ state }) => state === 'sending') ?? this.versions[0]
      if (claim?.server !== version.server) found.push(`marked by one who does not have it: ${this.told()}`)
    }
    return found
  }

  /** Why it had its effect twice; `none`: there is no reason; undefined: it had not. */
  double(): Cause | 'none' | undefined {
    const { effects, evidence } = this
    if (evidence.idempotent || effects.length < 2) return undefined
    let cause: Cause | 'none' = 'none'
    for (const [i, before] of effects.slice(0, -1).entries()) {
      const after = effects[i + 1] as Asked
      cause = this.whyNotKnown(before, after.at) ?? (this.wasHeld(after, after.at) ? 'held' : 'none')
      if (cause === 'none') return cause
    }
    return cause
  }

  /** Why whoever asked did not know until then what the answer was. */
  private whyNotKnown(asked: Asked, until: number): Cause | undefined {
    if (!asked.answered) return 'no answer'
    if (this.wasHeld(asked, until)) return 'held'
    const end = this.endOf(asked)
    if (!end || end.at > until) {
      const killed = this.lives.get(asked.server)?.killed
      return killed !== undefined && killed <= until + SLACK_MS ? 'killed' : undefined
    }
    return end.uncertain && end.at - asked.at > this.evidence.timeoutMs / 2 ? 'late' : undefined
  }

  private claimOf({ server, at }: Asked): Version | undefined {
    return this.versions.findLast(
      (version) => version.server === server && version.at <= at + SLACK_MS && isClaim(version),
    )
  }

  /** What the one who asked wrote down of it. */
  private endOf(asked: Asked): Version | undefined {
    const claim = this.claimOf(asked)
    if (!claim) return undefined
    return this.versions.find(
      (version) =>
        version !== claim &&
        version.claims === claim.claims &&
        version.server === claim.server &&
        version.at >= claim.at &&
        version.state !== 'sending',
    )
  }

  /** Whether whoever asked was held for longer than its lease after it had taken the message. */
  private wasHeld(asked: Asked, until: number): boolean {
    const claim = this.claimOf(asked)?.at ?? asked.at
    const { held = [] } = this.lives.get(asked.server) ?? {}
    return held.some(
      ([from, to]) => to - from > this.evidence.leaseMs && to >= claim - SLACK_MS && from <= until + SLACK_MS,
    )
  }

  /** Every provider said that it did not take it, and a queued message is only given up when it never will be taken. */
  private wasRefused(): boolean {
    const { asked, row } = this
    if (!asked.every(({ answered }) => answered)) return false
    if (row.mode === 'queue') return asked.at(-1)?.deed === 'refused'
    return asked.length > 0 || this.wasTooLate()
  }

  /** Whoever had it was held still, and asked nobody when it woke up. */
  private wasTooLate(): boolean {
    const [claim] = this.versions
    const { held = [] } = this.lives.get(claim?.server ?? '') ?? {}
    return held.some(([, to]) => to >= (claim?.at ?? 0))
  }

  /** How many in a row took it and were not heard of again, until one took it to say so. */
  private losses(): number {
    const since = this.versions.findLastIndex(({ state }) => state === 'queued') + 1
    const claims = this.versions.slice(since).flatMap((version) => (version.state === 'sending' ? version.claims : []))
    return new Set(claims).size - 1
  }

  /** Somebody may have sent it, and nobody knows: there was no clear answer, or who had it was lost. */
  private isUnknown(): boolean {
    const { row, asked, evidence } = this
    const mayRepeat = row.mode === 'queue' && (!row.at_most_once || evidence.idempotent)
    if (mayRepeat && !asked.some(({ deed }) => deed === 'refused') && this.losses() < MOST_LOSSES) return false
    if (asked.some((each) => this.whyNotKnown(each, Infinity) !== undefined)) return true
    return this.versions.some((claim, i) => {
      if (!isClaim(claim)) return false
      const next = this.versions.slice(i + 1).find(({ claims }) => claims !== claim.claims)?.at ?? Infinity
      const { killed, held = [] } = this.lives.get(claim.server) ?? {}
      return (
        (killed !== undefined && killed <= next + SLACK_MS) || held.some(([from, to]) => to >= claim.at && from <= next)
      )
    })
  }
}

/** As the outbox has it. */
const MOST_LOSSES = 5

/** Somebody has it now: took it from the queue, or is answering the request that it came with. */
const isClaim = ({ state }: Version): boolean => state === 'sending'
