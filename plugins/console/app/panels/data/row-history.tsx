import { useEffect, useState } from 'preact/hooks'
import { query } from '../../api.js'
import { type Table, wireName } from '../../catalog.js'
import { type Json, type JsonObject, textOf } from '../../json.js'
import { acting, isAdmin } from '../../session.js'
import { timeText } from '../../time.js'
import { Confirm } from '../../ui/confirm.js'
import { Problem } from '../../ui/problem.js'
import { keyColumns } from './view.js'

/** A change, as `row_history` returns it. Only an admin learns who made it. */
interface Change {
  readonly id?: string
  readonly time: string
  readonly operation: string
  readonly old: JsonObject | null
  readonly new: JsonObject | null
  readonly role?: string | null
  readonly user_id?: string | null
  readonly login?: string
}

const MOST = 50

/** Returns whether the changes of the rows of a table are kept. */
export const hasHistory = (table: Table): boolean =>
  table.captures?.includes('history') === true && keyColumns(table).length > 0

/** What happened to a row, the latest first. */
export function RowHistory({
  table,
  row,
  onUndone,
}: {
  readonly table: Table
  readonly row: JsonObject
  readonly onUndone: () => void
}) {
  const [changes, setChanges] = useState<readonly Change[]>()
  const [failure, setFailure] = useState<unknown>()
  const [undoing, setUndoing] = useState<Change>()
  const [isTried, setTried] = useState(false)
  useEffect(() => {
    const controller = new AbortController()
    const key = Object.fromEntries(keyColumns(table).map((name) => [name, row[name]]))
    query<readonly Change[]>(
      'row_history',
      { table: wireName(table.table), key, limit: MOST },
      { signal: controller.signal },
    ).then(setChanges, (error: unknown) => {
      if (!controller.signal.aborted) setFailure(error)
    })
    return () => controller.abort()
  }, [row])
  const mayUndo = isAdmin.value && acting.value === undefined
  /** Tries it first, so that a change which cannot be undone says why before anything is asked. */
  const attempt = async (change: Change) => {
    setTried(true)
    setFailure(undefined)
    try {
      await query('undo_change', { id: change.id }, { headers: { Prefer: 'tx=rollback' } })
      setUndoing(change)
    } catch (error) {
      setFailure(error)
    } finally {
      setTried(false)
    }
  }
  return (
    <details class="row-history">
      <summary>History{changes && ` (${changes.length === MOST ? `last ${MOST}` : changes.length})`}</summary>
      {failure !== undefined && <Problem of={failure} />}
      {changes?.length === 0 && <p class="soft">No change of this row is kept.</p>}
      <ol>
        {changes?.map((change, i) => (
          <li key={change.id ?? i}>
            <p class="row">
              <b>{SAID[change.operation] ?? change.operation}</b>
              <span class="soft">
                {timeText(change.time)}
                {writer(change)}
              </span>
              {mayUndo && change.id !== undefined && (
                <button type="button" class="quiet push" disabled={isTried} onClick={() => void attempt(change)}>
                  Undo
                </button>
              )}
            </p>
            {change.operation === 'update' && <Difference change={change} />}
          </li>
        ))}
      </ol>
      {undoing && (
        <Confirm
          title="Undo this change?"
          verb="Undo"
          run={async () => {
            await query('undo_change', { id: undoing.id })
            onUndone()
          }}
          close={() => setUndoing(undefined)}
        >
          <p>{EFFECT[undoing.operation]}</p>
          {undoing.operation === 'update' && <Difference change={{ ...undoing, old: undoing.new, new: undoing.old }} />}
        </Confirm>
      )}
    </details>
  )
}

const SAID: Readonly<Record<string, string>> = { insert: 'Inserted', update: 'Changed', delete: 'Deleted' }
const EFFECT: Readonly<Record<string, string>> = {
  insert: 'This deletes the row.',
  update: 'The row gets its former values:',
  delete: 'This inserts the row again.',
}

function writer({ role, user_id: user, login }: Change): string {
  if (login === undefined) return ''
  return role === null || role === undefined ? `, by ${login} in SQL` : `, by ${role}${user ? ` ${user}` : ''}`
}

function Difference({ change }: { readonly change: Change }) {
  return (
    <dl class="difference">
      {Object.entries(change.new ?? {}).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <del>{shown(change.old?.[name])}</del> → <ins>{shown(value)}</ins>
          </dd>
        </div>
      ))}
    </dl>
  )
}

/** Values may be long; the row itself has the whole of the newest. */
function shown(value: Json | undefined): string {
  if (value === null || value === undefined) return 'null'
  const text = typeof value === 'object' ? JSON.stringify(value) : textOf(value)
  return text === '' ? '(empty)' : text.length > 200 ? `${text.slice(0, 200)}…` : text
}
