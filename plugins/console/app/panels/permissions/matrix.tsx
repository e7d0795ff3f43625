import { useState } from 'preact/hooks'
import { labelOf, type Table } from '../../catalog.js'
import { colourOf, countText, lint, serious } from '../../lint.js'
import { Problem } from '../../ui/problem.js'
import { countKey, type Counts, useCounts } from './counts.js'
import { drafts } from './draft.js'
import { wordsOf } from './inherited.js'
import { InheritedRoles } from './inherited-roles.js'
import { findingsAt, findingsOn } from './lint-places.js'
import { NewRole } from './new-role.js'
import { addressOf } from './question.js'
import {
  ACTIONS,
  type Action,
  type Mark,
  markOf,
  permissionAt,
  placeKey,
  type Rules,
  SPECIAL,
  titleOf,
  trackSpecial,
} from './rules.js'
import { Session } from './session-fields.js'
import { Sign } from './sign.js'
import { useNarrow } from './use-narrow.js'

/** Roles that were named here and have no permission yet. */
let named: readonly string[] = []

/** All permissions: a row for each table, and columns for the operations of each role. */
export function Matrix({ rules }: { readonly rules: Rules }) {
  const [search, setSearch] = useState('')
  const [chosen, setChosen] = useState('')
  const [, setNamed] = useState(named)
  const [isInheriting, setInheriting] = useState(false)
  const isNarrow = useNarrow()
  const { counts, failure, isCounting, count } = useCounts(rules)
  const roles = [...new Set([...rules.roles, ...named])]
  const role = roles.includes(chosen) ? chosen : isNarrow ? roles[0] : undefined
  const shown = role === undefined ? roles : [role]
  const tables = rules.tables.filter(({ table }) => titleOf(table).toLowerCase().includes(search.trim().toLowerCase()))
  const add = (name: string) => {
    named = [...named, name]
    setNamed(named)
    setChosen(name)
  }
  return (
    <div class="page permissions">
      <div class="bar">
        <h2>Permissions</h2>
        <input
          type="search"
          aria-label="Search tables"
          placeholder="Search tables"
          value={search}
          onInput={({ currentTarget }) => setSearch(currentTarget.value)}
        />
        {roles.length > 0 && (
          <select aria-label="Role" value={role ?? ''} onChange={({ currentTarget }) => setChosen(currentTarget.value)}>
            {!isNarrow && <option value="">All roles</option>}
            {roles.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        )}
        <NewRole taken={roles} add={add} />
        {roles.length > 0 && (
          <button type="button" onClick={() => setInheriting(true)}>
            Inherited roles
          </button>
        )}
        <span class="row push">
          <FindingsLink />
          <a href="/console/permissions/why">Why can a role not see or change a row?</a>
        </span>
      </div>
      <div class="bar soft legend">
        <span>
          <Sign rows="all" /> all rows
        </span>
        <span>
          <Sign rows="some" /> some rows
        </span>
        <span>
          <Sign rows="none" /> no rows
        </span>
        <span>
          <b>2/5</b> two of five columns
        </span>
        <form
          class="row push"
          onSubmit={(event) => {
            event.preventDefault()
            void count(shown)
          }}
        >
          <Session names={['x-service-user-id']} />
          <button disabled={isCounting}>{isCounting ? 'Counting …' : 'Count rows'}</button>
        </form>
      </div>
      {isInheriting && <InheritedRoles rules={rules} close={() => setInheriting(false)} />}
      {failure !== undefined && <Problem of={failure} />}
      {roles.length === 0 ? (
        <p class="empty">No role has a permission yet. Name the first one: only admin sees any row until then.</p>
      ) : tables.length === 0 && search !== '' ? (
        <p class="empty">No table matches.</p>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Permissions by table and role">
          <table class="matrix">
            <Heads roles={shown} isOne={role !== undefined} inherited={rules.inherited} />
            <tbody>
              {tables.map((table) => (
                <Row key={labelOf(table.table)} table={table} roles={shown} counts={counts} />
              ))}
              {search === '' &&
                Object.entries(SPECIAL)
                  .filter(
                    ([name]) =>
                      !rules.tables.some(({ table }) => table.schema === 'svc_catalog' && table.name === name),
                  )
                  .map(([name, title]) => <Untracked key={name} name={name} title={title} span={shown.length * 4} />)}
            </tbody>
          </table>
        </div>
      )}
    </div>
  )
}

function FindingsLink() {
  const { findings } = lint.value
  const found = serious(findings ?? [])
  return (
    <a href="/console/permissions/findings">
      {findings && found.length > 0 ? <b class={colourOf(found)}>{countText(found)}</b> : 'Findings'}
    </a>
  )
}

const Heads = ({
  roles,
  isOne,
  inherited,
}: {
  readonly roles: readonly string[]
  readonly isOne: boolean
  readonly inherited: Rules['inherited']
}) => (
  <thead>
    {(!isOne || roles.some((role) => inherited.has(role))) && (
      <tr>
        <td />
        {roles.map((role) => (
          <th key={role} scope="colgroup" colSpan={4} class="first">
            {role}
            {inherited.has(role) && <small class="soft"> from {wordsOf(inherited.get(role) ?? [])}</small>}
          </th>
        ))}
      </tr>
    )}
    <tr>
      <td />
      {roles.flatMap((role) =>
        ACTIONS.map((action, i) => (
          <th key={`${role} ${action}`} scope="col" class={i === 0 ? 'action first' : 'action'}>
            {action}
          </th>
        )),
      )}
    </tr>
  </thead>
)

function Row({
  table,
  roles,
  counts,
}: {
  readonly table: Table
  readonly roles: readonly string[]
  readonly counts: Counts
}) {
  const total = counts.get(countKey(table))
  const found = serious(findingsOn(table.table, roles))
  return (
    <tr>
      <th scope="row">
        {titleOf(table.table)}
        {total !== undefined && <span class="count">{total}</span>}
        {found.length > 0 && (
          <a
            class={`found ${colourOf(found)}`}
            href={`/console/permissions/findings?${new URLSearchParams({ table: labelOf(table.table) })}`}
          >
            {countText(found)}
          </a>
        )}
      </th>
      {roles.flatMap((role) =>
        ACTIONS.map((action, i) => (
          <td key={`${role} ${action}`} class={i === 0 ? 'first' : undefined}>
            <Cell
              table={table}
              role={role}
              action={action}
              count={action === 'select' ? counts.get(countKey(table, role)) : undefined}
            />
          </td>
        )),
      )}
    </tr>
  )
}

function Cell({
  table,
  role,
  action,
  count,
}: {
  readonly table: Table
  readonly role: string
  readonly action: Action
  readonly count: string | undefined
}) {
  const place = { table: table.table, role, action }
  const permission = permissionAt(place)
  const mark = markOf(permission, action, table)
  const from = permission?.from && `from ${wordsOf(permission.from)}`
  const isChanged = drafts.value.has(placeKey(place))
  const found = serious(findingsAt(place))
  return (
    <a
      href={addressOf(place)}
      class={`cell ${mark.rows}`}
      aria-label={
        markWords(mark, role, action, titleOf(table.table), isChanged) +
        (from ? `, ${from}` : '') +
        (found.length > 0 ? `, ${countText(found)}` : '')
      }
    >
      <Sign rows={mark.rows} />
      {mark.columns && (
        <small>
          {mark.columns[0]}/{mark.columns[1]}
        </small>
      )}
      {count !== undefined && <small class="count">{count}</small>}
      {from && <small class="soft">{from}</small>}
      {isChanged && <small class="odd">unsaved</small>}
      {found.length > 0 && <small class={colourOf(found)}>{countText(found)}</small>}
    </a>
  )
}

const markWords = ({ rows, columns }: Mark, role: string, action: Action, table: string, isChanged: boolean): string =>
  `${role} may ${action} ${rows === 'none' ? 'nothing in' : `${rows} rows of`} ${table}` +
  (columns ? `, ${columns[0]} of ${columns[1]} columns` : '') +
  (isChanged ? ', with unsaved changes' : '')

function Untracked({ name, title, span }: { readonly name: string; readonly title: string; readonly span: number }) {
  const [failure, setFailure] = useState<unknown>()
  const [isAsking, setAsking] = useState(false)
  return (
    <tr>
      <th scope="row">{title}</th>
      <td colSpan={span} class="first untracked">
        {isAsking ? (
          <div class="row">
            <span>
              From then on a role needs a permission in this row
              {name === 'svc_file' ? ' for each use of a file' : ' to send a message'}.
            </span>
            <button type="button" class="primary" onClick={() => void trackSpecial(name).catch(setFailure)}>
              Apply rules
            </button>
            <button type="button" onClick={() => setAsking(false)}>
              Cancel
            </button>
          </div>
        ) : (
          <div class="row soft">
            {name === 'svc_file'
              ? 'No rules by row: the configuration says which roles may use files.'
              : 'No rules: only admin can send.'}
            <button type="button" class="quiet" onClick={() => setAsking(true)}>
              Set rules …
            </button>
          </div>
        )}
        {failure !== undefined && <Problem of={failure} />}
      </td>
    </tr>
  )
}
