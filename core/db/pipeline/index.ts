import type pg from 'pg'
import { type Answered, PipelinedConnection, type Statement } from './connection.js'

export type { Answered, Statement }

export interface PipelineOptions {
  readonly connections: number
  /** Of a row. */
  readonly maxBytes: number
  /** How long the server may say nothing while it is asked. */
  readonly silenceMs: number
  /** @returns a connection that is open */
  connect(): Promise<pg.Client>
}

/**
 * A few connections that quick reads share, each with many under way: the servers on both sides are woken less often, and
 * less is sent. Nobody else may wait behind a read that is not quick, and none can be cancelled: who may be here is for the
 * caller to know.
 */
export interface Pipelines {
  readonly open: number
  /** Reads whose answers are owed. */
  readonly underWay: number
  /**
   * @returns undefined when no connection is open yet: the first who asks have it opened, and go elsewhere
   * @throws Error that only says that it should be asked elsewhere
   */
  ask(statement: Statement, values: readonly (string | null)[]): Promise<Answered> | undefined
  close(): Promise<void>
}

const LOOK_MS = 1000
const IDLE_MS = 30_000
const LIFE_MS = 1_800_000
/** After an attempt to connect that has failed. */
const RETRY_MS = 1000

export function openPipelines(options: PipelineOptions): Pipelines {
  const connections = new Set<PipelinedConnection>()
  let connecting = 0
  let closed = false
  let failedAt = -Infinity
  const timer = setInterval(look, LOOK_MS).unref()

  function look(): void {
    for (const connection of connections) {
      if (connection.load > 0 && connection.silentMs > options.silenceMs) connection.destroy('no answer in time')
      else if (connection.load === 0 && connection.silentMs > IDLE_MS) connection.retire()
      else if (performance.now() - connection.openedAt > LIFE_MS) connection.retire()
      if (connection.retired) connections.delete(connection)
    }
  }

  async function connect(): Promise<void> {
    connecting++
    try {
      const client = await options.connect()
      if (closed) await client.end()
      else connections.add(new PipelinedConnection(client, options.maxBytes))
    } catch {
      failedAt = performance.now()
    } finally {
      connecting--
    }
  }

  /** The one that owes the fewest answers. */
  function leastLoaded(): PipelinedConnection | undefined {
    let least: PipelinedConnection | undefined
    for (const connection of connections) {
      if (connection.retired) connections.delete(connection)
      else if (!least || connection.load < least.load) least = connection
    }
    return least
  }

  return {
    get open() {
      return connections.size
    },
    get underWay() {
      return [...connections].reduce((sum, { load }) => sum + load, 0)
    },
    ask(statement, values) {
      const connection = leastLoaded()
      const wanted = !connection || connection.load > 0
      if (wanted && connections.size + connecting < options.connections && performance.now() - failedAt > RETRY_MS) {
        void connect()
      }
      return connection?.ask(statement, values)
    },
    async close() {
      closed = true
      clearInterval(timer)
      for (const connection of connections) connection.retire()
    },
  }
}
