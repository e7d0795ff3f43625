import type { Data, Migration } from 'rowhouse'
import type { FilestoreConfig } from './config.js'

/**
 * A file is a row that points to a blob: bytes that are written once and never change. Replacing a file makes it point to
 * another blob, so the commit of one row switches the content. Never edit a migration that was released, not even its
 * comments: databases store its checksum.
 */
export const migrations: readonly Migration[] = [
  {
    id: '001-files',
    sql: `
-- State:
--   writing  a server receives the bytes and renews leased_until; size is what they may become if there is a quota
--   live     a file points to the blob
--   dead     the collector deletes the bytes, after the grace period since dead_at
-- Scrubbing sets verified_at when it has read the bytes again, and damaged until they are intact. No other server reads them
-- before scrub_until. user_id: the owner, while the bytes are being written.
create table svc_catalog.svc_blob (
  blob_id uuid primary key,
  provider text not null,
  state text not null check (state in ('writing', 'live', 'dead')),
  size bigint,
  sha256 bytea,
  leased_until timestamptz,
  dead_at timestamptz,
  created_at timestamptz not null default now(),
  verified_at timestamptz,
  damaged text check (damaged in ('missing', 'size', 'sha256')),
  scrub_until timestamptz,
  user_id bigint
);
-- Serves the collector.
create index svc_blob_waste on svc_catalog.svc_blob (state) where state <> 'live';
-- Serves the choice of the next blob to scrub.
create index svc_blob_scrub on svc_catalog.svc_blob (coalesce(verified_at, created_at)) where state = 'live';
-- Serves the number of damaged files.
create index svc_blob_damaged on svc_catalog.svc_blob (blob_id) where damaged is not null;
-- Serves quotas.
create index svc_blob_coming on svc_catalog.svc_blob (user_id) where state = 'writing';

create table svc_catalog.svc_file (
  file_id text primary key
    constraint svc_file_id_check
    check (octet_length(file_id) between 1 and 1024 and file_id !~ '[\\u0001-\\u001f\\u007f-\\u009f]'),
  blob_id uuid not null unique references svc_catalog.svc_blob,
  content_type text not null
    constraint svc_file_type_check
    check (length(content_type) <= 255 and content_type ~ '^[!-~]+/[ -~]+$'),
  file_status text not null default 'uploaded' check (file_status = 'uploaded'),
  file_size bigint not null,
  user_id bigint not null,
  user_role text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  etag text not null
);
-- Serves quotas.
create index svc_file_of_user on svc_catalog.svc_file (user_id);

-- Files can also be changed by SQL and through the APIs, if a permission allows it. They must match their bytes all the same.
create function svc_catalog.svc_check_file() returns trigger language plpgsql as $$
begin
  if not exists (
    select from svc_catalog.svc_blob where blob_id = new.blob_id and state = 'live' and size = new.file_size
      and '"' || encode(sha256, 'hex') || '"' = new.etag
  ) then
    raise exception 'the record of a file has the size and the hash of its bytes' using errcode = '23514';
  end if;
  return null;
end $$;
create trigger svc_check_file after insert or update of blob_id, file_size, etag on svc_catalog.svc_file
  for each row execute function svc_catalog.svc_check_file();

-- A blob is dead from the commit that deletes or replaces its file.
create function svc_catalog.svc_release_blob() returns trigger language plpgsql as $$
begin
  update svc_catalog.svc_blob set state = 'dead', dead_at = now() where blob_id = old.blob_id;
  return null;
end $$;
create trigger svc_release_replaced after update of blob_id on svc_catalog.svc_file
  for each row when (old.blob_id is distinct from new.blob_id) execute function svc_catalog.svc_release_blob();
create trigger svc_release_deleted after delete on svc_catalog.svc_file
  for each row execute function svc_catalog.svc_release_blob();

-- Resumable uploads. counted: the key of the limit of unfinished uploads; received: the size of all pieces; holder: the request
-- that has the lock, until held_until; wanted_by: the request that gets it next; stored_at: when the upload became a file.
create table svc_catalog.svc_upload (
  upload_id uuid primary key,
  file_id text not null,
  content_type text not null,
  replace boolean not null,
  length bigint not null,
  metadata text not null,
  user_id bigint not null,
  user_role text not null,
  counted text not null,
  received bigint not null default 0,
  holder uuid,
  held_until timestamptz,
  wanted_by uuid,
  stored_at timestamptz,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
-- Serves the limit of unfinished uploads.
create index svc_upload_unfinished on svc_catalog.svc_upload (counted) where stored_at is null;
-- Serves the deletion of expired uploads.
create index svc_upload_expiry on svc_catalog.svc_upload (expires_at);

-- The bytes of an unfinished upload. The blob of a piece is in the state writing, with a lease that never expires.
create table svc_catalog.svc_upload_piece (
  blob_id uuid primary key references svc_catalog.svc_blob,
  upload_id uuid not null references svc_catalog.svc_upload on delete cascade,
  start bigint not null,
  size bigint not null,
  unique (upload_id, start)
);

-- The collector deletes the bytes of pieces without a grace period, because no file has used them.
create function svc_catalog.svc_release_pieces() returns trigger language plpgsql as $$
begin
  update svc_catalog.svc_blob set state = 'dead', dead_at = 'epoch' where blob_id in (select blob_id from released);
  return null;
end $$;
create trigger svc_release_pieces after delete on svc_catalog.svc_upload_piece
  referencing old table as released for each statement execute function svc_catalog.svc_release_pieces();

-- Uploads that become files with the commit of a transaction. The blob is in the state writing, with a lease until expires_at;
-- only its hash distinguishes it from a blob whose bytes are not complete. replace: whether it may replace a file; user_id: a
-- text for both settings of userId, null for an admin without a user id; counted: the key of the limit of pending uploads.
create table svc_catalog.svc_pending_file (
  blob_id uuid primary key references svc_catalog.svc_blob on delete cascade,
  file_id text not null,
  content_type text not null,
  replace boolean not null,
  user_id text,
  user_role text not null,
  counted text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
-- Allows one pending upload of a caller for a file. A new one replaces it. Anonymous callers differ by their address.
create unique index svc_pending_file_of on svc_catalog.svc_pending_file
  (file_id, coalesce(user_id, ''), user_role, (case user_role when 'anonymous' then counted else '' end));
-- Serves the limit of pending uploads.
create index svc_pending_file_counted on svc_catalog.svc_pending_file (counted);
create trigger svc_release_replaced after update of blob_id on svc_catalog.svc_pending_file
  for each row when (old.blob_id is distinct from new.blob_id) execute function svc_catalog.svc_release_blob();

-- The key of signed URLs. A new value invalidates all of them within a minute.
create table svc_catalog.svc_file_secret (
  only_one boolean primary key default true check (only_one),
  secret bytea not null
);
insert into svc_catalog.svc_file_secret (secret)
values (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
`,
  },
]

/**
 * Makes owners texts, for the setting `userId: 'text'`, which may come later than the first files. PostgreSQL rewrites
 * `svc_file`, which has an owner in each row. It does not rewrite `svc_blob`: its owners matter only while bytes are being
 * written.
 */
export const textUsersMigration: Migration = {
  id: '002-text-users',
  sql: `
alter table svc_catalog.svc_file
  alter column user_id type text using user_id::text,
  alter column user_id drop not null;
alter table svc_catalog.svc_upload
  alter column user_id type text using user_id::text,
  alter column user_id drop not null;
alter table svc_catalog.svc_blob add column user_text text;
update svc_catalog.svc_blob set user_text = user_id::text where state = 'writing';
alter table svc_catalog.svc_blob drop column user_id;
alter table svc_catalog.svc_blob rename column user_text to user_id;
-- Serves quotas.
create index svc_blob_coming on svc_catalog.svc_blob (user_id) where state = 'writing';
`,
}

/** @throws Error when owners are texts and the setting says integers: most texts are no integers */
export async function assertOwners(data: Data, userId: FilestoreConfig['userId']): Promise<void> {
  if (userId === 'text') return
  const [row] = await data.query<{ type: string }>(OWNER_TYPE)
  if (row?.type !== 'text') return
  throw new Error(
    'plugins.filestore.userId is "integer", but this database stores the owners of files as texts; set it to "text"',
  )
}

const OWNER_TYPE = `
select format_type(atttypid, null) as type from pg_attribute
where attrelid = 'svc_catalog.svc_file'::regclass and attname = 'user_id'`
