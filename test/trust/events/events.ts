import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { rowsOf } from '../../kit/database.js'
import { until } from '../../kit/until.js'
import { makeImagePostgres } from '../files/image-postgres.js'
import { ask, each } from '../notify/clients.js'
import { Servers } from '../notify/servers.js'
import type { Part } from '../part.js'
import { randomFrom } from '../random.js'
import { type Arrived, nameOf, startReceiver } from './receiver.js'

const WRITES_PER_MINUTE = 1500
const WRITES_OF_A_FAULT = 120
const KEYS = 12
const CROWD = { clients: 6, breakMs: 10 }
const LIFE_MS = [500, 3000] as const
/** How long PostgreSQL lives at least and at most. */
const DATABASE_LIFE_MS = [3000, 9000] as const
const PROGRAM = fileURLToPath(new URL('./server.js', import.meta.url))

/** Faults that must be caught, by what a violation says. */
const FAULTS = {
  untold: /was not told/,
  forged: /never happened|is no insert/,
  unordered: /came after/,
  twice: /ran 2 times/,
} as const
type Fault = keyof typeof FAULTS

export const events: Part = {
  about: 'row events, while servers and PostgreSQL are killed and the receiver fails',
  async run({ minutes, seed, progress }) {
    const score = await eventsUnderKills({ seed, writes: Math.ceil(minutes * WRITES_PER_MINUTE), progress })
    const violations = [...score.violations]
    for (const fault of Object.keys(FAULTS) as Fault[]) {
      const { violations: found } = await eventsUnderKills({ seed, writes: WRITES_OF_A_FAULT, fault })
      const isCaught = found.some((each) => FAULTS[fault].test(each))
      progress(`planted fault "${fault}": ${isCaught ? 'caught' : 'not caught'}`)
      if (!isCaught) violations.push(`the planted fault "${fault}" was not caught`)
    }
    const { writes, changes, kills, databaseKills, requests, doubled, effects, seconds } = score
    return {
      done: `${writes} writes, ${changes} changes of rows: ${kills} kills of servers, ${databaseKills} of PostgreSQL`,
      violations,
      figures: [
        `${requests} requests to the receiver, ${doubled} events came again, ${effects} templates ran, ${Math.round(seconds)} s`,
        `${Object.keys(FAULTS).length} planted faults tried`,
      ],
    }
  },
}

interface Options {
  readonly seed: number
  readonly writes: number
  readonly fault?: Fault
  progress?(text: string): void
}

/** Writes by the API and by SQL, some of it in vain, and compares what was told with what happened. */
export async function eventsUnderKills({ seed, writes, fault, progress = () => {} }: Options) {
  const began = performance.now()
  const random = randomFrom(seed)
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-trust-'))
  await chmod(folder, 0o755)
  const receiver = await startReceiver(random)
  const config = {
    compile: { threads: 0 },
    plugins: {
      events: { pollMs: 50, retrySeconds: 0.05, leaseSeconds: 2, breaker: { failures: 5, seconds: 0.2 } },
    },
    providers: { event: { hook: { url: receiver.url, timeoutMs: 500 } } },
  }
  await writeFile(join(folder, 'rowhouse.config.json'), JSON.stringify(config))
  const postgres = await makeImagePostgres(join(folder, 'postgres'))
  await postgres.start()
  const servers = new Servers({
    folder,
    databaseUrl: postgres.url,
    random,
    program: PROGRAM,
    lifeMs: LIFE_MS,
    mostKills: Infinity,
    holdEvery: 5,
    holdMs: 3000,
    startsAgain: true,
  })
  const over = new AbortController()
  let databaseKills = 0

  async function killDatabase(): Promise<void> {
    const [least, most] = DATABASE_LIFE_MS
    for (;;) {
      await servers.url()
      const life = least + random() * (most - least)
      if (await sleep(life, false, { signal: over.signal }).catch(() => true)) return
      await postgres.kill()
      databaseKills++
      await postgres.start()
    }
  }

  async function write(n: number): Promise<void> {
    const id = Math.floor(random() * KEYS)
    const v = `${n}`
    const kind = random()
    // Whether an answer came does not matter: the database knows what happened.
    if (kind < 0.6) {
      const update = { type: 'update', args: { table: 'thing', where: { id }, $set: { v } } }
      const remove = { type: 'delete', args: { table: 'thing', where: { id } } }
      const insert = { type: 'insert', args: { table: 'thing', objects: [{ id, v: `${v} again` }] } }
      const fails = { type: 'insert', args: { table: 'thing', objects: [{ id: null }] } }
      const steps = kind < 0.3 ? [update] : kind < 0.45 ? [remove, insert] : kind < 0.5 ? [remove] : [update, fails]
      await ask(`${await servers.url()}/v1/query`, { type: 'bulk', args: steps })
      return
    }
    const change =
      kind < 0.75
        ? `insert into thing values (${id}, '${v}') on conflict (id) do update set v = excluded.v`
        : kind < 0.9
          ? `update thing set v = '${v} ' || id where id % 3 = ${id % 3}`
          : `savepoint a; delete from thing where id = ${id}; rollback to a; update thing set v = '${v}' where id = ${id}`
    const end = random() < 0.3 ? 'rollback' : 'commit'
    await rowsOf(postgres.url, `begin; ${change}; ${end}`).catch(() => [])
  }

  try {
    await servers.first()
    await prepare(postgres.url, `${await servers.url()}/v1/query`, fault)
    await servers.calm()
    servers.play()
    const killing = killDatabase()
    await each(writes, { ...CROWD, random }, async (n) => {
      await write(n)
      if (n === Math.floor(writes / 2)) await plant(postgres.url, fault)
      if (n % 200 === 199) progress(`${n + 1} of ${writes} writes, ${servers.kills} and ${databaseKills} kills`)
    })
    over.abort()
    await killing
    await servers.calm()
    receiver.isWell = true
    await until('all events have ended', async () => {
      // What waits for longer than a lease has failed, and would be tried again later.
      await rowsOf(
        postgres.url,
        `update svc_catalog.svc_event set next_at = now() where state = 'queued' and next_at > now() + interval '2100 milliseconds'`,
      )
      const [left] = await rowsOf<{ n: string }>(
        postgres.url,
        `select count(*) as n from svc_catalog.svc_event where state = 'queued'`,
      )
      return left!.n === '0'
    })
    const { violations, changes, effects } = await judge(postgres.url, receiver.arrived)
    return {
      writes,
      changes,
      effects,
      databaseKills,
      kills: servers.kills,
      requests: receiver.requests,
      doubled: receiver.arrived.length - new Set(receiver.arrived.map(({ id }) => id)).size,
      seconds: (performance.now() - began) / 1000,
      violations,
    }
  } finally {
    over.abort()
    await servers.stop()
    await postgres.kill()
    receiver.close()
    await rm(folder, { recursive: true, force: true })
  }
}

/** Makes a table that notes its changes itself, row by row, and triggers that tell of them. */
async function prepare(databaseUrl: string, url: string, fault: Fault | undefined): Promise<void> {
  await rowsOf(
    databaseUrl,
    `create table thing (id int primary key, v text);
     create table effect (id bigserial primary key, event text, v text);
     create table truth (n bigserial, op text, id int, before text, after text);
     create function note() returns trigger language plpgsql as $$ begin
       insert into public.truth (op, id, before, after) values (lower(tg_op), coalesce(new.id, old.id), old.v, new.v);
       return null;
     end $$;
     create trigger note after insert or update or delete on thing for each row execute function note();
     insert into thing select g, 'first' from generate_series(0, ${KEYS - 1}) g; delete from truth`,
  )
  const on = { insert: {}, update: {}, delete: {} }
  const insert = {
    type: 'insert',
    args: { table: 'effect', objects: [{ event: { param: 'event' }, v: { param: 'v' } }] },
  }
  const args = { event: { $event: 'id' }, v: { $event: 'new.v' } }
  const order = fault === 'unordered' ? {} : { order_by: ['id'] }
  for (const [type, each] of [
    ['track_table', 'thing'],
    ['track_table', 'effect'],
    ['create_query_template', { name: 'effect', template: insert }],
    ['create_event_trigger', { name: 'ordered', table: 'thing', on, ...order, to: { provider: 'hook' } }],
    ['create_event_trigger', { name: 'loose', table: 'thing', on: { update: {} }, to: { provider: 'hook' } }],
    [
      'create_event_trigger',
      { name: 'effect', table: 'thing', on: { insert: {} }, to: { template: { name: 'effect', role: 'admin', args } } },
    ],
  ] as const) {
    const answer = await ask(url, { type, args: each })
    if (answer?.status !== 200) throw new Error(`${type}: ${JSON.stringify(answer?.body)}`)
  }
}

async function plant(databaseUrl: string, fault: Fault | undefined): Promise<void> {
  const sql = {
    untold: `set session_replication_role = origin; alter table thing disable trigger user; alter table thing enable trigger note;
      update thing set v = 'untold'; alter table thing enable trigger user`,
    forged: `insert into svc_catalog.svc_event (trigger_name, table_schema, table_name, operation, new)
      values ('loose', 'public', 'thing', 'update', '{"id": 1, "v": "forged"}')`,
    unordered: '',
    twice: `do $$ begin
      insert into effect (event, v) select event, v from effect limit 1;
      if not found then raise exception 'none has run yet'; end if;
    end $$`,
  }
  if (fault)
    for (let isDone = sql[fault] === ''; !isDone;) {
      isDone = await rowsOf(databaseUrl, sql[fault]).then(
        () => true,
        () => false,
      )
      if (!isDone) await sleep(200)
    }
}

/** Compares what happened with what was told. */
async function judge(databaseUrl: string, arrived: readonly Arrived[]) {
  const violations: string[] = []
  const rows = await rowsOf<{ op: string; id: number; before: string | null; after: string | null }>(
    databaseUrl,
    'select op, id, before, after from truth order by n',
  )
  const changes = rows.map(({ op, id, before, after }) => nameOf(op, id, before, after))
  const stored = await rowsOf<{ id: string; trigger: string; state: string; error: string | null }>(
    databaseUrl,
    `select id::text, trigger_name as trigger, state, error from svc_catalog.svc_event`,
  )
  for (const { id, trigger, state, error } of stored) {
    if (state === 'failed') violations.push(`event ${id} of ${trigger} failed: ${error}`)
  }
  const first = new Map<string, Arrived>()
  for (const each of arrived) if (!first.has(each.id)) first.set(each.id, each)
  const told = (trigger: string) =>
    [...first.values()].filter((each) => each.trigger === trigger).map(({ change }) => change)
  const updates = changes.filter((change) => change.startsWith('["update"'))
  for (const [trigger, wanted] of [
    ['ordered', changes],
    ['loose', updates],
  ] as const) {
    const counts = new Map<string, number>()
    for (const change of wanted) counts.set(change, (counts.get(change) ?? 0) + 1)
    for (const change of told(trigger)) counts.set(change, (counts.get(change) ?? 0) - 1)
    for (const [change, count] of counts) {
      if (count > 0) violations.push(`${trigger} was not told of ${change}`)
      if (count < 0) violations.push(`${trigger} was told of ${change}, which never happened`)
    }
  }
  const keyOf = (change: string) => (JSON.parse(change) as unknown[])[1]
  for (let key = 0; key < KEYS; key++) {
    const [wanted, found] = [changes, told('ordered')].map((all) => all.filter((change) => keyOf(change) === key))
    const wrong = found!.findIndex((change, i) => change !== wanted![i])
    if (wrong >= 0 && found!.length === wanted!.length) violations.push(`${found![wrong]} came after another order`)
  }
  const effects = await rowsOf<{ event: string; n: number; is_insert: boolean }>(
    databaseUrl,
    `select event, count(*)::int as n, bool_and(exists (select from truth where op = 'insert' and after = v)) as is_insert
     from effect group by event`,
  )
  for (const { event, n, is_insert: isInsert } of effects) {
    if (n > 1) violations.push(`the template of event ${event} ran ${n} times`)
    if (!isInsert) violations.push(`the template of event ${event} ran for what is no insert`)
  }
  const inserts = changes.filter((change) => change.startsWith('["insert"')).length
  if (effects.length !== inserts) violations.push(`${effects.length} templates ran for ${inserts} inserts`)
  return { violations, changes: changes.length, effects: effects.length }
}
