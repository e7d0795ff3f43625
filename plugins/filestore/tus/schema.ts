import type { Migration } from 'rowhouse'

/** Records of uploads by the tus protocol. Their bytes are on the disk of one server. */
export const uploadsMigration: Migration = {
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
}
