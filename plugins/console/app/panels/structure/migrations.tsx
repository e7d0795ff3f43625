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

const COLUMNS: readonly GridColumn[] = [
  { key: 'owner', title: 'Of', sortable: false },
  { key: 'id', title: 'Migration', sortable: false },
  { key: 'at', title: 'Ran at', sortable: false },
]

/** The migrations that ran on the database: first those of the user's own files. */
export function Migrations() {
  const { answer, failure } = useAnswer(
    (signal) => asAdmin<Answer>('run_sql', { sql: APPLIED, read_only: true }, { signal }),
    undefined,
  )
  const rows = useMemo(
    () =>
      (answer?.result ?? []).slice(1).map(([owner, id, at]) => ({ owner: OWNERS[owner] ?? `plugin ${owner}`, id, at })),
    [answer],
  )
  if (failure !== undefined) return <Problem of={failure} />
  if (!answer) return <p class="wait">Loading …</p>
  const own = rows.filter(({ owner }) => owner === OWNERS['sql files']).length
  return (
    <div class="page">
      <p class="body">
        {own === 0 ? (
          <>
            None of your own SQL files has run. <code>rowhouse migrate new add_notes</code> creates one, and{' '}
            <code>rowhouse migrate up</code> runs it.
          </>
        ) : (
          <>
            {own} of your own SQL files {own === 1 ? 'has' : 'have'} run. <code>rowhouse migrate status</code> compares
            them with the folder.
          </>
        )}
      </p>
      <Grid label="Migrations" columns={COLUMNS} rows={rows} />
    </div>
  )
}
