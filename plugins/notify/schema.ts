import type { Migration } from 'rowhouse'

/** Never edit a migration that was released, not even its comments: databases store its checksum. */
export const migrations: readonly Migration[] = [
  {
    id: '001-outbox',
    sql: `
-- A message is stored before it is sent. State:
--   queued       waits until next_at
--   sending      a server sends it; its lease ends at next_at
--   sent         the provider accepted it
--   partly_sent  the provider accepted it for some recipients; it is not tried again
--   caught       the provider keeps it and delivers nothing
--   failed       it was not sent and will not be
--   unknown      it may have been sent, and is not sent again
-- Mode sync: the request sends the message, which is never queued, and waits for the result.
-- attempts counts calls of a provider, claims how often a server has claimed the message, and losses the latest consecutive
-- claims that ended without a stored result. provider is the one that sends the message, has sent it, or may have sent it;
-- unknown_since is when it may have.
-- recipients is a list of {address, outcome, detail} once recipients have outcomes of their own: sent, postponed, refused or
-- unknown. While the message is queued, it goes to postponed recipients only.
-- events is a list of {provider, id, kind, detail, address} that providers posted while the message is sending. They are
-- part of the result of that attempt.
-- accepted is a list of {provider, id}: the references of providers that accepted the message for some of its recipients.
create table svc_catalog.svc_outbox (
  id uuid primary key default gen_random_uuid(),
  kind text not null check (kind in ('email', 'email-template', 'sms')),
  "to" text not null,
  "from" text,
  from_name text,
  sub text,
  text text,
  html text,
  cc jsonb,
  bcc jsonb,
  reply_to text,
  template text,
  content jsonb,
  country_code text,
  message text,
  at_most_once boolean not null default false,
  mode text not null default 'queue' check (mode in ('queue', 'sync')),
  state text not null default 'queued'
    check (state in ('queued', 'sending', 'sent', 'partly_sent', 'caught', 'failed', 'unknown')),
  attempts integer not null default 0,
  claims integer not null default 0,
  losses integer not null default 0,
  next_at timestamptz not null default now(),
  queued_at timestamptz not null default now(),
  provider text,
  unknown_since timestamptz,
  provider_id text,
  detail text,
  error text,
  error_code text,
  delivery text check (delivery in ('delivered', 'deferred', 'bounced', 'complained')),
  delivery_detail text,
  delivery_at timestamptz,
  created_at timestamptz not null default now(),
  sent_at timestamptz,
  recipients jsonb,
  events jsonb,
  accepted jsonb,
  check (state not in ('queued', 'sending') or case kind
    when 'sms' then country_code is not null and message is not null
    when 'email' then "from" is not null and sub is not null and (text is not null or html is not null)
    else "from" is not null and template is not null end)
);
-- Serves the claim of messages that are due.
create index svc_outbox_due on svc_catalog.svc_outbox (next_at) where state in ('queued', 'sending');
-- Serves the backlog, and lists of messages in one state other than sent.
create index svc_outbox_troubled on svc_catalog.svc_outbox (created_at desc, id desc) where state <> 'sent';
-- Serves other lists, and the deletion of old messages.
create index svc_outbox_newest on svc_catalog.svc_outbox (created_at desc, id desc);
-- Serves delivery events, which have the id that the provider gave a message.
create index svc_outbox_reference on svc_catalog.svc_outbox (provider, provider_id) where provider_id is not null;
-- Serves delivery events about an earlier attempt.
create index svc_outbox_accepted on svc_catalog.svc_outbox using gin (accepted jsonb_path_ops) where accepted is not null;
-- Serves the limit of SMS to a number in an hour.
create index svc_outbox_numbers on svc_catalog.svc_outbox ((country_code || "to"), created_at) where kind = 'sms';
-- Serves the limit of all SMS in a day.
create index svc_outbox_sms on svc_catalog.svc_outbox (created_at) where kind = 'sms';

-- A role that may insert messages sets their contents and recipients, but not their progress.
create function svc_catalog.svc_new_message() returns trigger language plpgsql as $$
begin
  -- The request of a message of mode sync sends it. After next_at, any server finds that it was lost.
  new.state := case new.mode when 'sync' then 'sending' else 'queued' end;
  new.next_at := case new.mode when 'sync'
    then least(greatest(new.next_at, now() + interval '1 minute'), now() + interval '1 hour') else now() end;
  new.attempts := 0;
  new.claims := 0;
  new.losses := 0;
  new.created_at := now();
  new.queued_at := now();
  new.provider := null;
  new.unknown_since := null;
  new.provider_id := null;
  new.recipients := null;
  new.events := null;
  new.accepted := null;
  new.detail := null;
  new.error := null;
  new.error_code := null;
  new.delivery := null;
  new.delivery_detail := null;
  new.delivery_at := null;
  new.sent_at := null;
  return new;
end $$;
create trigger svc_new_message before insert on svc_catalog.svc_outbox
  for each row execute function svc_catalog.svc_new_message();

-- Not columns of svc_outbox, so that roles that may insert messages cannot attach files.
create table svc_catalog.svc_outbox_attachment (
  message_id uuid not null references svc_catalog.svc_outbox on delete cascade,
  position integer not null,
  filename text not null,
  content_type text not null,
  content bytea not null,
  primary key (message_id, position)
);

-- Addresses that get no mail, because a provider or an admin said so.
create table svc_catalog.svc_suppression (
  address text primary key check (address = lower(address)),
  reason text not null,
  created_at timestamptz not null default now()
);

-- subject, text and html are Liquid. Values in html are escaped.
create table svc_catalog.svc_mail_template (
  name text primary key check (name ~ '^[A-Za-z0-9_.-]{1,64}$'),
  subject text not null,
  text text,
  html text,
  comment text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  check (text is not null or html is not null)
);
`,
  },
]
