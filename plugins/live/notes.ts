import type { Data } from 'rowhouse'

/** What changed since the last look: the names of tables, or anything. */
export type Changed = readonly (readonly [schema: string, name: string])[] | 'anything'

/** How long a note is kept, and a reader may look away. */
const KEEP_MS = 60_000

interface Look {
  /** `xmin:xmax:xip`, the transactions that the look saw. */
  readonly now: string
  readonly epoch: string | null
  readonly tables: string
}

/**
 * What became visible since the last snapshot are the notes of transactions that were in progress then, or began later. So
 * a transaction may take as long as it wants.
 */
const LOOK = `select pg_catalog.pg_current_snapshot()::text as now, (select epoch::text from svc_catalog.svc_live_epoch) as epoch,
  (select coalesce(pg_catalog.json_agg(distinct pg_catalog.jsonb_build_array(table_schema, table_name)), '[]')::text
   from svc_catalog.svc_live_note where xid >= $1::text::xid8 or xid = any ($2::text[]::xid8[])) as tables`

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
    const { now, epoch, tables } = look!
    this.mark = { snapshot: now, epoch: epoch ?? '', at }
    const isKnown = mark !== undefined && mark.epoch === epoch && at - mark.at < KEEP_MS / 2
    return isKnown ? (JSON.parse(tables) as Changed) : 'anything'
  }
}

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
