import type { Data } from 'rowhouse'
import type { TableRef } from 'rowhouse/plan'

/** A table that changed. */
export interface Change {
  readonly table: TableRef
  readonly columns: readonly string[]
  /** Values of these columns in the rows that changed, as they were and as they are. Absent: any row may have changed. */
  readonly rows?: readonly (readonly (string | null)[])[]
}
/** What changed since the last look: tables, or anything. */
export type Changed = readonly Change[] | 'anything'

/** How long a note is kept, and a reader may look away. */
const KEEP_MS = 60_000

/** Of the values of a table. With more of them, any row may have changed. */
const MOST_BYTES = 1_000_000

interface Look {
  /** `xmin:xmax:xip`, the transactions that the look saw. */
  readonly now: string
  readonly epoch: string | null
  readonly changes: string
}

/**
 * What became visible since the last snapshot are the notes of transactions that were in progress then, or began later. So
 * a transaction may take as long as it wants.
 */
const LOOK = `select pg_catalog.pg_current_snapshot()::text as now, (select epoch::text from svc_catalog.svc_live_epoch) as epoch,
  (select coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(table_schema, table_name, columns, keys)), '[]')::text from (
    select table_schema, table_name, columns,
      case when pg_catalog.bool_and(keys is not null) and pg_catalog.sum(pg_catalog.pg_column_size(keys)) <= ${MOST_BYTES} then pg_catalog.jsonb_agg(keys) end as keys
    from svc_catalog.svc_live_note where xid >= $1::text::xid8 or xid = any ($2::text[]::xid8[]) group by 1, 2, 3) n) as changes`

const BEGIN = `insert into svc_catalog.svc_live_epoch default values on conflict do nothing`

/** Reads the notes of the triggers, each once. */
export class Notes {
  private mark: { readonly snapshot: string; readonly epoch: string; readonly at: number } | undefined

  constructor(private readonly data: Data) {}

  /** Forgets what was read, because nobody waits for changes. */
  rest(): void {
    this.mark = undefined
  }

  /** Returns what changed since the last look. The first one says `anything`. */
  async look(): Promise<Changed> {
    const { mark } = this
    const { xmax, running } = read(mark?.snapshot ?? '1:1:')
    const at = performance.now()
    const ask = () => this.data.query<Look>(LOOK, mark ? [xmax, running] : ['18446744073709551615', []])
    let [look] = await ask()
    if (look!.epoch === null) {
      await this.data.query(BEGIN)
      ;[look] = await ask()
    }
    const { now, epoch, changes } = look!
    this.mark = { snapshot: now, epoch: epoch ?? '', at }
    const isKnown = mark !== undefined && mark.epoch === epoch && at - mark.at < KEEP_MS / 2
    return isKnown ? (JSON.parse(changes) as NoteText[]).map(changeOf) : 'anything'
  }
}

type NoteText = [schema: string, name: string, columns: string[] | null, keys: (string | null)[][][] | null]
const changeOf = ([schema, name, columns, keys]: NoteText): Change => ({
  table: { schema, name },
  columns: columns ?? [],
  ...(keys ? { rows: keys.flat() } : {}),
})

function read(snapshot: string): { readonly xmax: string; readonly running: readonly string[] } {
  const [, xmax = '', running = ''] = snapshot.split(':')
  return { xmax, running: running === '' ? [] : running.split(',') }
}

/**
 * Deletes notes that every reader has seen: those of transactions that had ended a while ago. One that is still open then keeps
 * its note, however old it is.
 */
export class Pruning {
  private marks: { readonly xmin: string; readonly at: number }[] = []

  constructor(private readonly data: Data) {}

  async prune(): Promise<void> {
    const at = performance.now()
    const [now] = await this.data.query<{ xmin: string }>(
      'select pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::text as xmin',
    )
    this.marks.push({ xmin: now!.xmin, at })
    const old = this.marks.findLast((mark) => at - mark.at >= KEEP_MS)
    if (!old) return
    this.marks = this.marks.slice(this.marks.indexOf(old))
    await this.data.query('delete from svc_catalog.svc_live_note where xid < $1::text::xid8', [old.xmin])
  }
}
