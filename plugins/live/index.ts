import { type Answer, type Call, definePlugin, type Exchange, jsonAnswer, readJson, setting } from 'rowhouse'
import { type Json, liftTableRef } from 'rowhouse/plan'
import { capture } from './capture.js'
import { Live, type LiveListener, type LiveQuery, type Subscription } from './live.js'
import { Pruning } from './notes.js'
import { migrations } from './schema.js'
import { queriesIn, type Say, Streams } from './streams.js'

export type { Told } from './groups.js'
export type { End, Lifted, LiveListener, LiveQuery, Subscription } from './live.js'
export type { Say } from './streams.js'

/** The service for other plugins. */
export interface LiveService {
  /**
   * Answers with a stream of server-sent events: the answer to a read, and again whenever it is another one. Its events
   * have no name.
   * @param say writes the events of another front end
   * @throws ServiceError 400, 429, 503
   */
  open(exchange: Exchange, query: LiveQuery, say?: Say): Promise<Answer>
  /**
   * Tells the answer to a read to a listener, and again whenever it is another one. The first may be told before this returns.
   * @throws ServiceError 400, 429, 503
   * @example
   * ```ts
   * const query = { type: 'count', args: { table: 'guestbook' } }
   * const { close } = await live.subscribe(call, query, { tell: (told) => show(told), end: (code) => reconnect(code) })
   * ```
   */
  subscribe(call: Call, query: LiveQuery, listener: LiveListener): Promise<Subscription>
}
declare module 'rowhouse' {
  interface Services {
    live: LiveService
  }
}

const PRUNE_MS = 10_000

/** Live queries: answers that are sent again when they change. */
export default definePlugin({
  name: 'live',
  needs: ['data', 'operations'],
  config: {
    type: 'object',
    properties: {
      pollMs: setting.count(5000, 'Interval at which a live query is read that also depends on what is not live.'),
      tickMs: setting.advanced.count(
        100,
        'Interval at which the server looks for changes while somebody waits for any.',
      ),
      heartbeatMs: setting.advanced.count(25_000, 'Interval of comments that keep proxies from closing a stream.'),
      maxStreamMinutes: setting.count(
        60,
        'Minutes after which a stream ends, so that its client has to prove again who it is.',
      ),
      maxQueries: setting.count(20_000, 'Live queries at the same time. Others fail with 503.'),
      maxQueriesPerCaller: setting.count(100, 'Live queries of one caller at the same time. Others fail with 429.'),
      maxAnswerBytes: setting.count(1024 * 1024, 'Maximum size of an answer of a live query. Larger ones are errors.'),
    },
  },
  migrations,
  setup(host, options) {
    const data = host.use('data')
    const seconds = host.metric.counter('read_seconds_total', 'Time that live queries were read for.')
    const reads = host.metric.counter('reads_total', 'Answers that were read, by whether they were others.', ['answer'])
    const live = new Live(data, host.use('operations'), host.use('log'), options, (ms, isNew) => {
      seconds.inc(ms / 1000)
      reads.inc({ answer: isNew ? 'new' : 'same' })
    })
    const streams = new Streams(live, options)
    host.metric.gauge('streams', 'Streams of live queries.', [], (gauge) => gauge.set(streams.count))
    host.metric.gauge('groups', 'Different live queries.', [], (gauge) => gauge.set(live.groups.size))
    data.describeCatalog({ captures: new Map([['live', capture]]) })
    host.operation('set_table_live', {
      admin: true,
      args: {
        type: 'object',
        properties: {
          table: {},
          live: { type: 'boolean' },
          columns: { type: 'array', items: { type: 'string' }, maxItems: 16 },
        },
        required: ['table', 'live'],
      },
      async run({ table, live: isLive, columns }, call) {
        const definition: Json = isLive ? (columns ? { columns: [...columns] } : {}) : null
        await data.alter(call, (edit) => edit.capture(liftTableRef(table as Json, '$.args.table'), 'live', definition))
        return jsonAnswer({ message: 'success' })
      },
    })
    host.route('post', '/v1/live', async (exchange) => streams.open(exchange, queriesIn(await readJson(exchange))))
    const pruning = new Pruning(data)
    host.every('delete old notes of changes', PRUNE_MS, () => pruning.prune())
    host.onDrain(() => live.close())
    return {
      open: (exchange, query, say) => streams.open(exchange, new Map([['', query]]), say),
      subscribe: (call, query, listener) => live.subscribe(call, query, listener),
    }
  },
})
