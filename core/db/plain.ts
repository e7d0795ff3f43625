import { execute } from './execute.js'
import type { Database, Pool } from './database.js'
import type { Lane } from './lane.js'
import { plainSource, readRows } from './stream.js'

/** Runs each request on its own pooled connection, with `pg` and `pg-query-stream`. */
export function plainLane(database: Database): Lane {
  let streams: Pool | undefined
  const run: Lane['cell'] = (job) => execute(database, job)
  return {
    cell: run,
    write: run,
    rows: (job) => readRows(database, { pool: (streams ??= database.openStreams()), open: plainSource }, job),
  }
}
