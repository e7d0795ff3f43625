import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node'
import t from 'tap'
import { otlpReceiver } from '../kit/otlp.js'
import { testServer } from '../kit/server.js'
import { until } from '../kit/until.js'

t.test('the span of a compilation says that a worker compiled', async (t) => {
  const receiver = await otlpReceiver(t)
  // The one SDK of this process, as `node --import ./otel.mjs` registers it.
  const provider = new NodeTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(new OTLPTraceExporter({ url: receiver.url }))],
  })
  provider.register()
  t.teardown(() => provider.shutdown())
  const server = await testServer(t, { threads: 1 })
  await server.must('run_sql', { sql: 'create table note (id int primary key)' })
  await server.must('track_table', 'note')
  const traceId = '0af7651916cd43dd8448eb211c80319c'

  const body = JSON.stringify({ type: 'select', args: { table: 'note', columns: ['id'] } })
  t.same((await server.raw(body, {}, { traceparent: `00-${traceId}-b7ad6b7169203331-01` })).body, [])

  const compiled = () => receiver.spans.find((span) => span.traceId === traceId && span.name === 'compile')
  await until('the span came', () => compiled() !== undefined)
  t.match(compiled(), { attributes: { 'rowhouse.planner': 'query', 'rowhouse.by': 'worker' } })
})
