import { useMemo } from 'preact/hooks'
import { Grid, type GridColumn } from '../../ui/grid.js'
import { Problem } from '../../ui/problem.js'
import { asAdmin, useAnswer } from './structure.js'

interface Answer {
  readonly result: readonly (readonly [owner: string, id: string, at: string])[]
}
const OWNERS: Readonly<Record<string, string>> = { 'sql files': 'your SQL files', core: 'Rowhouse' }

const APPLIED = `select owner, id, to_char(applied_at, 'YYYY-MM-DD HH24:MI:SS TZ')
from svc_catalog.svc_migration order by owner <> 'sql files', applied_at desc, owner, id desc`

interface Status {
  readonly dir: string
  /** Why the server cannot read the folder. */
  readonly problem?: string
  readonly migrations: readonly { readonly id: string; readonly state: keyof typeof STATES }[]
}
const STATES = {
  applied: 'has run',
  pending: 'has not run yet',
  changed: 'was changed after it ran',
  missing: 'has run, and its file is missing',
}

const COLUMNS: readonly GridColumn[] = [
  { key: 'owner', title: 'Of', sortable: false },
  { key: 'id', title: 'Migration', sortable: false },
  { key: 'state', title: 'State', sortable: false },
  { key: 'at', title: 'Ran at', sortable: false },
]

/** The migrations of the database: first the user's own files, with those that have not run yet. */
export function Migrations() {
  const { answer, failure } = useAnswer(
    (signal) =>
      Promise.all([
        asAdmin<Answer>('run_sql', { sql: APPLIED, read_only: true }, { signal }),
        // The plugin sql may be switched off.
        asAdmin<Status>('migration_status', {}, { signal }).catch(() => undefined),
      ]),
    undefined,
  )
  const rows = useMemo(() => {
    const [{ result = [] } = {}, status] = answer ?? []
    const times = new Map(result.slice(1).map(([owner, id, at]) => [`${owner}\n${id}`, at]))
    const own = (status?.migrations ?? [])
      .map(({ id, state }) => ['sql files', id, STATES[state]] as const)
      .toReversed()
    const others = result.slice(1).filter(([owner]) => !status || owner !== 'sql files')
    return [...own, ...others.map(([owner, id]) => [owner, id, STATES.applied] as const)].map(([owner, id, state]) => ({
      owner: OWNERS[owner] ?? `plugin ${owner}`,
      id,
      state,
      at: times.get(`${owner}\n${id}`) ?? '',
    }))
  }, [answer])
  if (failure !== undefined) return <Problem of={failure} />
  if (!answer) return <p class="wait">Loading …</p>
  return (
    <div class="page">
      <div class="body">{answer[1] && <OwnFiles {...answer[1]} />}</div>
      <Grid label="Migrations" columns={COLUMNS} rows={rows} />
    </div>
  )
}

function OwnFiles({ dir, problem, migrations }: Status) {
  const pending = migrations.filter(({ state }) => state === 'pending').length
  const broken = migrations.filter(({ state }) => state === 'changed' || state === 'missing').length
  return (
    <>
      {problem !== undefined && (
        <p class="soft">
          This server cannot read a folder <code>{dir}</code> of your SQL files, so this page has only those that ran.{' '}
          <code>rowhouse migrate status</code> compares them with a folder.
        </p>
      )}
      {migrations.length === 0 ? (
        <p>
          None of your own SQL files has run. <code>rowhouse migrate new add_notes</code> creates one, and{' '}
          <code>rowhouse migrate up</code> runs it.
        </p>
      ) : (
        <p>
          {migrations.length - pending} of your own SQL files {migrations.length - pending === 1 ? 'has' : 'have'} run
          {pending > 0 && (
            <>
              , and <b class="odd">{pending} not yet</b>: <code>rowhouse migrate up</code> runs{' '}
              {pending === 1 ? 'it' : 'them'}
            </>
          )}
          .
          {broken > 0 && (
            <b class="bad"> {broken} of them changed or disappeared since, which stops rowhouse migrate up.</b>
          )}
        </p>
      )}
    </>
  )
}
