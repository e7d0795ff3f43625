import t from 'tap'
import { rowsOf } from '../kit/database.js'
import { testServer } from '../kit/server.js'

t.test('/metrics has what a plot needs', async (t) => {
  const server = await testServer(t, { notify: true, threads: 1 })
  await server.must('run_sql', { sql: 'select 1' })
  // Of mode sync, so that no worker takes it for a minute.
  await rowsOf(
    server.databaseUrl,
    `insert into svc_catalog.svc_outbox (kind, "to", "from", sub, text, mode) values ('email', 'a@b.c', 'd@e.f', 's', 't', 'sync')`,
  )
  await rowsOf(server.databaseUrl, `update svc_catalog.svc_outbox set queued_at = now() - interval '90 seconds'`)

  const { text } = await server.fetch('/metrics')

  for (const line of [
    /^rowhouse_http_request_duration_seconds_count\{.*status="200",plugin="query"/m,
    /^rowhouse_database_connections\{pool="main",state="waiting"\} 0/m,
    /^rowhouse_compile_tasks\{state="busy"\} 0/m,
    /^rowhouse_compile_tasks\{state="waiting"\} 0/m,
    /^nodejs_eventloop_lag_p99_seconds /m,
    /^nodejs_heap_size_used_bytes /m,
    /^process_resident_memory_bytes /m,
    /^rowhouse_metadata_version \d+/m,
    /^rowhouse_metadata_listening 1/m,
    /^rowhouse_build_info\{version="[\d.]+"\} 1/m,
    /^rowhouse_notify_outbox_messages\{kind="email",state="queued"\} 1$/m,
    /^rowhouse_notify_outbox_messages\{kind="sms",state="failed"\} 0/m,
    /^rowhouse_notify_outbox_oldest_seconds\{kind="email"\} 9\d/m,
  ]) {
    t.match(text, line)
  }
})
