import type { Migration } from 'rowhouse'

/** Never edit a migration that was released, not even its comments: databases store its checksum. */
export const migrations: readonly Migration[] = [
  {
    id: '001-events',
    sql: `
-- An event, stored by the transaction that causes it. State:
--   queued  waits until next_at. While a server delivers it, that is the end of its lease
--   done    was delivered
--   failed  was given up
-- key is the primary key after the change; old and new are the row. Events with the same order_key of a trigger are delivered
-- one after the other. claims counts how often a server took it, losses the latest consecutive claims without a stored result,
-- and attempts those with one. It is given up some hours after due_at.
-- role, user_id and request_id are those of the request; login is that of PostgreSQL.
-- Events of schedules, and those that were scheduled once, have a target of their own. variables are those of the session
-- that scheduled it, if it was no admin; for_hours limits the time of attempts.
create table svc_catalog.svc_event (
  id bigint generated always as identity primary key,
  trigger_name text not null,
  table_schema text,
  table_name text,
  operation text not null check (operation in ('insert', 'update', 'delete', 'schedule', 'once')),
  key jsonb,
  old jsonb,
  new jsonb,
  order_key bigint,
  at timestamptz not null default now(),
  role text default nullif(current_setting('service.role', true), ''),
  user_id text default nullif(current_setting('service.user_id', true), ''),
  request_id text default nullif(current_setting('service.request_id', true), ''),
  login text not null default session_user,
  state text not null default 'queued' check (state in ('queued', 'done', 'failed')),
  due_at timestamptz not null default now(),
  next_at timestamptz not null default now(),
  attempts integer not null default 0,
  claims integer not null default 0,
  losses integer not null default 0,
  error text,
  error_code text,
  detail text,
  ended_at timestamptz,
  target jsonb,
  variables jsonb,
  for_hours double precision
);
-- Serves the claim of events that are due.
create index svc_event_due on svc_catalog.svc_event (trigger_name, next_at)
  where state = 'queued' and order_key is null and target is null;
-- Serves the claim of the first event of each order_key.
create index svc_event_order on svc_catalog.svc_event (trigger_name, order_key, id)
  where state = 'queued' and order_key is not null;
-- Serves the claim of events that are due and have a target.
create index svc_event_scheduled on svc_catalog.svc_event (next_at) where state = 'queued' and target is not null;
-- Serves the cancelling and the limit of what was scheduled once.
create index svc_event_once on svc_catalog.svc_event (role, trigger_name) where state = 'queued' and operation = 'once';
-- Serves lists of events in one state, and the deletion of old ones.
create index svc_event_ended on svc_catalog.svc_event (state, ended_at) where state <> 'queued';
-- Triggers whose receiver wants no more events. Their events wait.
create table svc_catalog.svc_event_stop (
  trigger_name text primary key,
  reason text not null,
  at timestamptz not null default now()
);
create table svc_catalog.svc_schedule (
  name text primary key,
  cron text not null,
  time_zone text not null,
  target jsonb not null,
  catch_up boolean not null,
  for_hours double precision,
  next_at timestamptz not null
);
create index svc_schedule_due on svc_catalog.svc_schedule (next_at);
`,
  },
]
