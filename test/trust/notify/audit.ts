import type pg from 'pg'

/** A version of a message's row, as it was committed. */
export interface Version {
  readonly id: string
  /** Who wrote it. */
  readonly server: string
  /** In milliseconds since 1970; a moment before the commit. */
  readonly at: number
  readonly state: 'queued' | 'sending' | 'sent' | 'partly_sent' | 'caught' | 'failed' | 'unknown'
  readonly claims: number
  readonly provider: string | null
  /** Whether it may have been sent. */
  readonly uncertain: boolean
}

/** A message as it is in the end. */
export interface Row {
  readonly id: string
  readonly sub: string
  readonly mode: 'queue' | 'sync'
  readonly at_most_once: boolean
  readonly state: Version['state']
  readonly provider: string | null
  readonly provider_id: string | null
  readonly error: string | null
}

/** Whom the versions that tests write are of. */
export const HARNESS = 'harness'

/** From now on each version of each message is kept. The tables have to be there. */
export async function keepVersions(database: pg.Client): Promise<void> {
  await database.query(`
    create table version (n bigserial primary key, id uuid, server text, at float8, state text, claims int, provider text,
      uncertain boolean);
    create function keep_version() returns trigger language plpgsql as $$
    begin
      insert into version (id, server, at, state, claims, provider, uncertain) values (new.id,
        current_setting('application_name'), extract(epoch from clock_timestamp()) * 1000, new.state, new.claims,
        new.provider, new.unknown_since is not null);
      return null;
    end $$;
    create trigger keep_version after insert or update on svc_catalog.svc_outbox
      for each row execute function keep_version()`)
}

/** By message, in order. */
export async function readVersions(database: pg.Client): Promise<ReadonlyMap<string, readonly Version[]>> {
  const { rows } = await database.query<Version>(
    'select id::text, server, at, state, claims, provider, uncertain from version order by n',
  )
  return grouped(rows)
}

export async function readRows(database: pg.Client): Promise<readonly Row[]> {
  const { rows } = await database.query<Row>(
    'select id::text, sub, mode, at_most_once, state, provider, provider_id, error from svc_catalog.svc_outbox',
  )
  return rows
}

/** By message. */
export function grouped<T extends { readonly id: string }>(entries: readonly T[]): ReadonlyMap<string, readonly T[]> {
  const groups = new Map<string, T[]>()
  for (const entry of entries) {
    const group = groups.get(entry.id)
    if (group) group.push(entry)
    else groups.set(entry.id, [entry])
  }
  return groups
}
