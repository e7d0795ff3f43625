import { each } from './clients.js'
import type { Fault } from './plant.js'
import { type Judgement, judge } from './judge.js'
import { Ledger } from './ledger.js'
import { onStage } from './stage.js'

const LIFE_MS = [180, 430] as const

export interface OutboxScore extends Judgement {
  readonly messages: number
  readonly acknowledged: number
  readonly kills: number
  readonly holds: number
  /** How often the provider was asked. */
  readonly attempts: number
  readonly seconds: number
}

export interface OutboxOptions {
  readonly seed: number
  readonly messages: number
  readonly idempotent: boolean
  readonly fault?: Fault
  readonly clients?: number
  readonly breakMs?: number
  readonly holdEvery?: number
  readonly lifeMs?: readonly [least: number, most: number]
  readonly retrySeconds?: number
  readonly mostKills?: number
}

/** Messages are sent by servers that are killed all the time, through a provider that misbehaves. */
export async function outboxUnderKills(options: OutboxOptions): Promise<OutboxScore> {
  const { seed, messages, clients = 16, breakMs = 5, holdEvery = 12, lifeMs = LIFE_MS, ...others } = options
  const began = performance.now()
  return onStage({ seed, lifeMs, concurrency: 6, holdEvery, ...others }, async (stage) => {
    const { servers, random } = stage
    const ledger = new Ledger(() => servers.url())
    servers.play()
    await each(messages, { clients, breakMs, random }, (n) => ledger.send(n))
    await stage.drain()
    await ledger.repeatAll()
    const evidence = await stage.evidence()
    const judgement = judge(evidence)
    return {
      ...judgement,
      violations: [...judgement.violations, ...ledger.check(evidence.rows)],
      messages: evidence.rows.length,
      acknowledged: ledger.acknowledged,
      kills: servers.kills,
      holds: servers.holds,
      attempts: evidence.asked.length,
      seconds: (performance.now() - began) / 1000,
    }
  })
}
