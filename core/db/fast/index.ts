import type { Compiled, Prepared } from '../../compile/compile.js'
import type { Logger } from '../../observe/log.js'
import type { Metrics } from '../../observe/metrics.js'
import { cancel, type Database, GRACE_MS, isPooled, poolName } from '../database.js'
import { isConnectionError } from '../sqlstates.js'
import type { Job, Lane } from '../lane.js'
import { type Observer, type Place, placeOn } from '../observe.js'
import { readRows } from '../stream.js'
import { Blocks, blockSource, divertRows, openSocket } from './rows.js'
import { CommitConnection, openPipelines, type PipelineOptions, type Pipelines, ReadConnection } from './pipelines.js'
import { type Batch, NotDone, type SharedConnection } from './connection.js'
import { COMMIT, Lateness, Pace, SLOW } from './pace.js'

/** Fast lanes. Each wraps another lane and delegates what it does not handle. */
interface FastLanes {
  /** Keeps rows of streams as bytes in reusable memory. */
  rows(lane: Lane): Lane
  /** Lets quick reads share connections, and quick inserts share commits. */
  shared(lane: Lane): Lane
  close(): Promise<void>
}

export function openFastLanes(database: Database, log: Logger, metrics: Metrics, observer: Observer): FastLanes {
  const { config } = database
  const place = placeOn(database, 'shared')
  const ofStreams = placeOn(database, 'stream')
  const lateness = new Lateness()
  const open = openerOf(
    database,
    lateness,
    log,
    metrics,
    observer.slow.thresholdMs,
    ({ statements: [queued, ...others] }, ms) => {
      // Of several statements, the slow one is unknown.
      if (queued && others.length === 0) observer.slow.record(queued.statement, queued.origin, ms, place)
    },
  )
  const reads = open(ReadConnection, config.pipelines, 'pipeline', 2 * SLOW * config.pipelineMaxMs)
  const commits = open(CommitConnection, config.sharedCommits, 'commits', 4 * SLOW * config.pipelineMaxMs)
  const blocks = new Blocks()
  const streams = database.openStreams({
    stream: openSocket,
    onConnect: (client) => divertRows(client, config.maxAnswerBytes),
  })
  return {
    rows: (lane) => ({
      ...lane,
      rows: (job) =>
        readRows(database, { pool: streams, open: (client) => blockSource(client, blocks), place: ofStreams }, job),
    }),
    shared: (lane) => ({
      cell: shared(reads, lateness, config.pipelineMaxMs, place, lane.cell),
      write: shared(
        commits,
        lateness,
        COMMIT * config.pipelineMaxMs,
        place,
        lane.write,
        ({ sharesCommit }) => sharesCommit === true,
      ),
      rows: lane.rows,
    }),
    async close() {
      lateness.stop()
      await Promise.all([reads?.close(), commits?.close()])
    },
  }
}

/**
 * Runs requests that are known to be quick on shared connections, and others on the wrapped lane.
 * @param quickMs maximum typical duration of a quick request
 */
function shared(
  pipelines: Pipelines | undefined,
  lateness: Lateness,
  quickMs: number,
  place: Place,
  plain: Lane['cell'],
  mayShare: (plan: Compiled) => boolean = () => true,
): Lane['cell'] {
  if (!pipelines) return plain
  const paces = new WeakMap<Compiled, Pace>()

  function paceOf({ plan, execution }: Job): Pace | undefined {
    // A request without a prepared statement is new, or is planned afresh each time.
    if (!execution.prepare || !mayShare(plan)) return undefined
    const known = paces.get(plan)
    if (known) return known
    const pace = new Pace(quickMs)
    paces.set(plan, pace)
    return pace
  }

  return (job) => {
    const pace = paceOf(job)
    if (!pace) return plain(job)
    lateness.touch()
    const { plan, values, execution, call } = job
    const { observer } = execution
    const alone = () =>
      plain({
        ...job,
        isQuick: pace.mayShare,
        execution: { ...execution, onTime: (ms) => pace.ranAlone(ms - lateness.ms) },
      })
    const judge = pace.of(call.session.caller)
    const statement = plan.statements[0] as Prepared
    const since = performance.now()
    const answer = judge.mayShare ? pipelines.run(statement, values, execution, judge, execution.writer) : undefined
    if (!answer) return alone()
    return (observer ? observer.trace(statement, execution, place, () => answer) : answer).then(
      (cell) => {
        observer?.time(execution, place, performance.now() - since)
        return cell
      },
      (error: unknown) => {
        // It did not run, and nothing has happened.
        if (error instanceof NotDone) return alone()
        throw error
      },
    )
  }
}

type Open = (
  Connection: new (...args: ConstructorParameters<PipelineOptions['Connection']>) => SharedConnection,
  connections: number,
  purpose: string,
  slowMs: number,
) => Pipelines | undefined

/** @param onSlow called with each batch that took longer than `slowQueryMs` */
function openerOf(
  database: Database,
  lateness: Lateness,
  log: Logger,
  metrics: Metrics,
  slowQueryMs: number,
  onSlow: (batch: Batch, ms: number) => void,
): Open {
  const { config, breaker } = database
  const batches = metrics.counter(
    'database_batches_total',
    'Batches of statements on shared connections by outcome. The statements of a failed batch run again.',
    ['pool', 'outcome'],
  )
  return (Connection, connections, purpose, slowMs) => {
    if (connections === 0 || isPooled(config)) return undefined
    const pipelines = openPipelines({
      Connection,
      connections,
      maxBytes: config.maxAnswerBytes,
      silenceMs: config.statementTimeoutMs + GRACE_MS,
      slowMs,
      lateness,
      doubt: breaker.failed,
      silenced: database.silenced,
      isDown: () => breaker.isOpen,
      // If the database is down, the breaker finds out when the pool cannot connect either.
      failed: (error) =>
        log[isConnectionError(error) ? 'debug' : 'warn']({ err: error, purpose }, 'cannot open a shared connection'),
      connect: () => database.openSingle(purpose),
      cancel: (client) => void cancel(database, client),
      onBatch(outcome, batch, ms) {
        batches.inc({ pool: purpose, outcome })
        if (ms > slowQueryMs && outcome === 'good') onSlow(batch, ms)
      },
    })
    const states = () => ({ open: pipelines.open, busy: pipelines.inFlight })
    database.pools.set(poolName(database, purpose), { max: connections, states })
    return pipelines
  }
}
