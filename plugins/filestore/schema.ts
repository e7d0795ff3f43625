import type { Data, Migration } from 'rowhouse'
import type { FilestoreConfig } from './config.js'

/**
 * A file is a row that points to a blob: bytes that are written once and never change. Replacing a file makes it point to
 * another blob, so the commit of one row switches the content. Never edit a migration, not even its comments: databases store
 * its checksum.
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
  {
    id: '002-guard',
    sql: `
-- Records can be changed by SQL and, where somebody permits it, through the APIs. They stay what can be served.
alter table svc_catalog.svc_file
  add constraint svc_file_id_check
    check (octet_length(file_id) between 1 and 1024 and file_id !~ '[\\u0001-\\u001f\\u007f-\\u009f]'),
  add constraint svc_file_type_check check (length(content_type) <= 255 and content_type ~ '^[!-~]+/[ -~]+$');
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
`,
  },
  {
    id: '003-scrub',
    sql: `
-- verified_at: when the bytes were last read again; damaged: what was wrong with them then, until they are found whole;
-- scrub_until: who reads them now has that long.
alter table svc_catalog.svc_blob
  add column verified_at timestamptz,
  add column damaged text check (damaged in ('missing', 'size', 'sha256')),
  add column scrub_until timestamptz;
create index svc_blob_scrub on svc_catalog.svc_blob (coalesce(verified_at, created_at)) where state = 'live';
create index svc_blob_damaged on svc_catalog.svc_blob (blob_id) where damaged is not null;
`,
  },
  {
    id: '004-uploads',
    sql: `
-- Folders of staged bytes, each of one server, and when that was last there.
create table svc_catalog.svc_upload_place (
  place uuid primary key,
  seen_at timestamptz not null default now()
);

create table svc_catalog.svc_upload (
  upload_id uuid primary key,
  place uuid not null references svc_catalog.svc_upload_place,
  file_id text not null,
  content_type text not null,
  replace boolean not null,
  length bigint not null,
  metadata text not null,
  user_id bigint not null,
  user_role text not null,
  -- Whom the limit of unfinished uploads counts it under.
  counted text not null,
  -- Staged bytes from here on have not been compared with their checksum: they do not count.
  unchecked_from bigint,
  -- Set by the commit that makes the bytes a file.
  stored_at timestamptz,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index svc_upload_unfinished on svc_catalog.svc_upload (counted) where stored_at is null;
create index svc_upload_expiry on svc_catalog.svc_upload (expires_at);
`,
  },
  {
    id: '005-quota',
    sql: `
-- Of a blob that is being written size is what may come, where quotas have to know that.
alter table svc_catalog.svc_blob add column user_id bigint;
create index svc_blob_coming on svc_catalog.svc_blob (user_id) where state = 'writing';
create index svc_file_of_user on svc_catalog.svc_file (user_id);
`,
  },
  {
    id: '006-signed-urls',
    sql: `
-- What signs addresses of files. Another value makes those that were given out worthless, within a minute.
create table svc_catalog.svc_file_secret (
  only_one boolean primary key default true check (only_one),
  secret bytea not null
);
insert into svc_catalog.svc_file_secret (secret)
values (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
`,
  },
  {
    id: '008-upload-pieces',
    sql: `
-- The bytes of an unfinished upload are pieces. Each is a blob that is being written, with a lease that never expires: so the
-- collectors and checks of older servers leave it alone, too.
create table svc_catalog.svc_upload_piece (
  blob_id uuid primary key references svc_catalog.svc_blob,
  upload_id uuid not null references svc_catalog.svc_upload on delete cascade,
  start bigint not null,
  size bigint not null,
  unique (upload_id, start)
);

-- received: the size of all pieces; holder: the request that has the lock, until held_until; wanted_by: the request that gets
-- it next.
-- Servers of older versions need place, unchecked_from and svc_upload_place, which newer ones do not use: drop them in the next
-- major version. The place of new uploads is always alive and is that of no server, so older servers answer 503 and the client
-- retries.
insert into svc_catalog.svc_upload_place (place, seen_at) values ('00000000-0000-0000-0000-000000000000', 'infinity');
alter table svc_catalog.svc_upload
  alter column place set default '00000000-0000-0000-0000-000000000000',
  add column received bigint not null default 0,
  add column holder uuid,
  add column held_until timestamptz,
  add column wanted_by uuid;

-- The collector deletes the bytes without a grace period, because no file has used them.
create function svc_catalog.svc_release_pieces() returns trigger language plpgsql as $$
begin
  update svc_catalog.svc_blob set state = 'dead', dead_at = 'epoch' where blob_id in (select blob_id from released);
  return null;
end $$;
create trigger svc_release_pieces after delete on svc_catalog.svc_upload_piece
  referencing old table as released for each statement execute function svc_catalog.svc_release_pieces();
`,
  },
  {
    id: '009-pending-files',
    sql: `
-- Uploads that become files with the commit of a transaction. The blob of one is being written, with a lease until expires_at,
-- so that older servers leave it alone until then, and collect it afterwards. Its hash tells it from a blob whose bytes still come.
-- replace: whether it may replace a file; user_id: a text whatever the setting says, null for an admin without one; counted: whom
-- the limit of pending uploads counts it under.
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
create unique index svc_pending_file_of on svc_catalog.svc_pending_file (file_id, coalesce(user_id, ''), user_role);
create index svc_pending_file_counted on svc_catalog.svc_pending_file (counted);
create trigger svc_release_replaced after update of blob_id on svc_catalog.svc_pending_file
  for each row when (old.blob_id is distinct from new.blob_id) execute function svc_catalog.svc_release_blob();
`,
  },
]

/**
 * Lets owners be texts, for the setting `userId: text`. PostgreSQL writes svc_file once more, which holds owners for good;
 * of blobs, owners matter only while they are being written.
 */
export const textUsersMigration: Migration = {
  id: '007-text-users',
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
