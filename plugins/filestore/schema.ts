import type { Migration } from 'rowhouse'

/**
 * A file is a row that points to a blob: bytes that were written once and never change. Replacing a file is pointing
 * elsewhere, so the commit of that row is the only switch.
 */
export const migrations: readonly Migration[] = [
  {
    id: '001-files',
    sql: `
-- writing: bytes are on their way, and whoever writes them renews the lease; live: a file points to it; dead: nothing
-- does, and the collector takes it away.
create table svc_catalog.svc_blob (
  blob_id uuid primary key,
  provider text not null,
  state text not null check (state in ('writing', 'live', 'dead')),
  size bigint,
  sha256 bytea,
  leased_until timestamptz,
  dead_at timestamptz,
  created_at timestamptz not null default now()
);
create index svc_blob_waste on svc_catalog.svc_blob (state) where state <> 'live';

create table svc_catalog.svc_file (
  file_id text primary key,
  blob_id uuid not null unique references svc_catalog.svc_blob,
  content_type text not null,
  file_status text not null default 'uploaded' check (file_status = 'uploaded'),
  file_size bigint not null,
  user_id bigint not null,
  user_role text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  etag text not null
);

-- However a file goes or changes, its old bytes are waste from that commit on.
create function svc_catalog.svc_release_blob() returns trigger language plpgsql as $$
begin
  update svc_catalog.svc_blob set state = 'dead', dead_at = now() where blob_id = old.blob_id;
  return null;
end $$;
create trigger svc_release_replaced after update of blob_id on svc_catalog.svc_file
  for each row when (old.blob_id is distinct from new.blob_id) execute function svc_catalog.svc_release_blob();
create trigger svc_release_deleted after delete on svc_catalog.svc_file
  for each row execute function svc_catalog.svc_release_blob();
`,
  },
]
