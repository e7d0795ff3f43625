import { ask, each } from './clients.js'
import { judge } from './judge.js'
import type { Fault } from './plant.js'
import { onStage, type Stage } from './stage.js'

export interface TransactionScore {
  readonly transactions: number
  readonly committed: number
  readonly kills: number
  readonly attempts: number
  readonly seconds: number
  readonly violations: readonly string[]
}

export interface TransactionOptions {
  readonly seed: number
  readonly transactions: number
  readonly fault?: Fault
  readonly mostKills?: number
}

const ROLE = 'clerk'
const CLIENTS = 8
const BREAK_MS = 5
const LIFE_MS = [300, 1500] as const

/**
 * Rows of a table and mails about them, in one transaction each, half of which fail after the mail, while servers are
 * killed: by an admin who may send anything, then by a role that may insert into the outbox.
 */
export async function transactionsUnderKills({
  seed,
  transactions,
  ...others
}: TransactionOptions): Promise<TransactionScore> {
  const began = performance.now()
  return onStage(
    { seed, idempotent: true, lifeMs: LIFE_MS, holdEvery: 0, concurrency: 6, ...others },
    async (stage) => {
      const { servers, random, database } = stage
      await database.query(
        'create table orders (key text primary key); create table line (amount int check (amount > 0))',
      )
      await must(
        stage,
        ['orders', 'line'].map((table) => ({ type: 'track_table', args: table })),
      )
      const violations: string[] = []
      const refused: string[] = []
      const crowd = { clients: CLIENTS, breakMs: BREAK_MS, random }
      const half = Math.ceil(transactions / 2)
      servers.play()
      await each(half, crowd, (n) => order(stage, `order ${n}`, n % 2 === 0, undefined, refused, violations))
      await servers.calm()
      await must(stage, permissions())
      // The others hear of it a moment later: new ones know it.
      await servers.calm()
      servers.play()
      await each(transactions - half, crowd, (n) =>
        order(stage, `order ${half + n}`, n % 2 === 0, ROLE, refused, violations),
      )
      await stage.drain()
      const evidence = await stage.evidence()
      const { rows } = await database.query<{ key: string }>('select key from orders')
      const committed = new Set(rows.map(({ key }) => key))
      const sent = new Set(evidence.asked.filter(({ effect }) => effect).map(({ sub }) => sub))
      violations.push(
        ...judge(evidence).violations,
        ...[...committed].filter((key) => !sent.has(key)).map((key) => `${key}: committed, and never sent`),
        ...[...sent].filter((key) => !committed.has(key)).map((key) => `${key}: sent, and never committed`),
        ...refused.filter((key) => committed.has(key)).map((key) => `${key}: committed, and answered with 503`),
      )
      return {
        transactions,
        committed: committed.size,
        kills: servers.kills,
        attempts: evidence.asked.length,
        seconds: (performance.now() - began) / 1000,
        violations,
      }
    },
  )
}

/** One transaction. @param commits otherwise its last part fails */
async function order(
  { servers }: Stage,
  key: string,
  commits: boolean,
  role: string | undefined,
  refused: string[],
  violations: string[],
): Promise<void> {
  const mail = { to: 'reader@example.com', from: 'shop@example.com', sub: key, text: 'Thank you' }
  const args = [
    { type: 'insert', args: { table: 'orders', objects: [{ key }] } },
    { type: 'send_email', args: mail },
    { type: 'insert', args: { table: 'line', objects: [{ amount: commits ? 1 : 0 }] } },
  ]
  const headers: Record<string, string> = role === undefined ? {} : { 'X-Service-Role': role }
  const answer = await ask(`${await servers.url()}/v1/query`, { type: 'bulk', args }, headers)
  if (answer === undefined || answer.status === (commits ? 200 : 400)) return
  // A server that starts on a busy machine may find the database too slow.
  if (answer.status === 503) refused.push(key)
  else violations.push(`${key}: answered ${JSON.stringify(answer)}`)
}

const permissions = (): readonly object[] => [
  { type: 'track_table', args: { schema: 'svc_catalog', name: 'svc_outbox' } },
  ...['orders', 'line', { schema: 'svc_catalog', name: 'svc_outbox' }].map((table) => ({
    type: 'create_insert_permission',
    args: { table, role: ROLE, permission: { check: {}, columns: '*' } },
  })),
]

/** As admin, at a server that nobody kills. */
async function must({ servers }: Stage, args: readonly object[]): Promise<void> {
  const answer = await ask(`${await servers.url()}/v1/query`, { type: 'bulk', args })
  if (answer?.status !== 200) throw new Error(JSON.stringify(answer))
}
