import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { readCpu } from '../cpu.js'
import type { Size } from '../data.js'
import type { Peer, PeerKind } from '../peers.js'
import type { LoadScenario } from '../scenarios/scenario.js'
import type { WriteScenario } from '../scenarios/write.js'
import type { Child, Post } from './child.js'
import { directus } from './peer-directus.js'
import { fastify } from './peer-fastify.js'
import { postgraphile, postgraphile4 } from './peer-postgraphile.js'

/** How a kind of server is started and asked. */
export interface PeerAdapter {
  /** Waits until it answers. */
  start(folder: string, databaseUrl: string): Promise<Child>
  reads(scenario: LoadScenario, size: Size): readonly Way[]
  writes(scenario: WriteScenario): readonly Way[]
}

/** One way to ask. */
export interface Way {
  /** Behind the name of the peer. */
  readonly how: string
  /** The n-th request. */
  post(n: number): Post
  /** The rows in its answer as those of the others, as JSON text. */
  rows(answer: string): string
}

export interface RunningPeer extends Pick<PeerAdapter, 'reads' | 'writes'> {
  readonly name: string
  /** Another one after a restart. */
  readonly child: Child
  /** Before each window: one that still works for somebody is started again. */
  settle(): Promise<void>
  stop(): Promise<void>
}

const ADAPTERS: Readonly<Record<QueryPeer['kind'], PeerAdapter>> = {
  directus,
  fastify,
  postgraphile,
  'postgraphile-4': postgraphile4,
}

const IDLE_MS = 100
const IDLE_SHARE = 0.2
const SETTLED_MS = 3_000

/** Others take files only. */
export const answersQueries = (peer: Peer): peer is QueryPeer => peer.kind !== 'tus'
type QueryPeer = Peer & { readonly kind: Exclude<PeerKind, 'tus'> }

export async function startPeer({ name, kind, folder }: QueryPeer, databaseUrl: string): Promise<RunningPeer> {
  const { start, reads, writes } = ADAPTERS[kind]
  let child = await start(folder, databaseUrl)
  return {
    name,
    get child() {
      return child
    },
    reads,
    writes,
    async settle() {
      for (const began = performance.now(); performance.now() - began < SETTLED_MS;) {
        if (await idle(child.pid)) return
      }
      await child.stop()
      child = await start(folder, databaseUrl)
    },
    stop: () => child.stop(),
  }
}

/** Where there is no /proc nobody can tell. */
async function idle(pid: number): Promise<boolean> {
  const before = readCpu(pid, process.pid)
  await sleep(IDLE_MS)
  const after = readCpu(pid, process.pid)
  return !before || !after || after.server - before.server <= IDLE_MS * IDLE_SHARE
}

/** The role whose user is the subject of the token that PostgREST has verified. */
export const TOKEN_ROLE = 'bench_token'

/** The roles with policies, and the setting that names their user. */
const USERS = {
  bench_user: "current_setting('bench.user_id')",
  [TOKEN_ROLE]: "current_setting('request.jwt.claims')::json ->> 'sub'",
}

/** The same permissions as the metadata, in PostgreSQL. A superuser, as which everything else connects, passes them by. */
export async function createPolicies(client: pg.Client): Promise<void> {
  for (const [role, user] of Object.entries(USERS))
    await client.query(`
      create role ${role};
      grant select on author, article, comment to ${role};
      create policy ${role}_author on author for select to ${role} using (active);
      create policy ${role}_article on article for select to ${role}
        using (published or author_id = (select (${user})::int));
      create policy ${role}_comment on comment for select to ${role} using (not hidden);
    `)
  await client.query(`
    alter table author enable row level security;
    alter table article enable row level security;
    alter table comment enable row level security;
  `)
}
