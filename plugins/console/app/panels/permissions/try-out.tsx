import { useState } from 'preact/hooks'
import { Failure } from '../../api.js'
import { isNumeric, type Table } from '../../catalog.js'
import { type Json, type JsonObject, textOf } from '../../json.js'
import { variablesIn } from 'rowhouse/sentence'
import { Grid, type GridColumn, type GridRow } from '../../ui/grid.js'
import { Problem } from '../../ui/problem.js'
import { Tabs } from '../../ui/tabs.js'
import { type Condition, Conditions, whereOf } from './conditions.js'
import { CountBoth } from './count-both.js'
import { type Draft, parsed, permissionOf } from './draft.js'
import { ObjectField, objectFor } from './object-field.js'
import { checkRule } from './rule-names.js'
import { whyAddress } from './question.js'
import type { Permission, Place, Rules } from './rules.js'
import { Session, tried as triedSession, triedVariables } from './session-fields.js'
import { type Asked, keyOf, rowKey, type Trial } from './trial.js'
import { useTrial } from './use-trial.js'
import { WhyAnswer } from './why-answer.js'

/** Tries a permission: which rows it is about, and why. */
export function TryOut({
  place,
  table,
  rules,
  draft,
  saved,
  asked,
}: {
  readonly place: Place
  readonly table: Table
  readonly rules: Rules
  /** The form, if it has changes. */
  readonly draft: Draft | undefined
  readonly saved: Permission | undefined
  /** The question of the address. */
  readonly asked: Asked
}) {
  const { role, action } = place
  const [conditions, setConditions] = useState(() => conditionsOf(asked.key, table))
  const definition = draft ? tryParse(draft, place) : saved?.definition
  const names = [...new Set(['x-service-user-id', ...variablesIn(saved?.definition), ...variablesIn(definition)])]
  const variables = triedSession.value && triedVariables()
  const isWrong = draft !== undefined && (!definition || checkRule(draft.filter, table, rules).length > 0)
  const trial: Trial | undefined = isWrong
    ? undefined
    : { place, table, filter: definition?.['filter'] ?? {}, isSaved: !draft, where: whereOf(conditions), variables }
  return (
    <section class="try" aria-label="Try it">
      <div class="bar">
        <h3>Try it</h3>
        <Session names={names} />
        {action !== 'insert' && <Conditions table={table} conditions={conditions} change={setConditions} />}
      </div>
      {action === 'insert' ? (
        <TryInsert
          place={place}
          table={table}
          rules={rules}
          definition={definition}
          isChanged={draft !== undefined}
          asked={asked}
        />
      ) : (
        <TryRows
          place={place}
          table={table}
          rules={rules}
          trial={trial}
          definition={definition}
          isChanged={draft !== undefined}
          role={role}
          object={asked.object}
        />
      )}
    </section>
  )
}

/** Returns the fields for a key: those of its columns, or an empty one. */
function conditionsOf(key: Json | undefined, table: Table): readonly Condition[] {
  const columns = typeof key === 'object' && key !== null ? Object.entries(key as JsonObject) : []
  const given = columns.flatMap(([column, value]) =>
    typeof value !== 'object' && table.columns.some(({ name }) => name === column)
      ? [{ column, value: textOf(value) }]
      : [],
  )
  return given.length > 0 ? given : [{ column: table.primary_key[0] ?? table.columns[0]?.name ?? '', value: '' }]
}

function tryParse(draft: Draft, { action }: Place): JsonObject | undefined {
  try {
    return permissionOf(draft, action).definition
  } catch {
    return undefined
  }
}

/** Key of the column that says whether the permission is about the row. No column of a table is called so. */
const SEEN = '\0seen'

function TryRows({
  place,
  table,
  rules,
  trial,
  definition,
  isChanged,
  role,
  object,
}: {
  readonly place: Place
  readonly table: Table
  readonly rules: Rules
  readonly trial: Trial | undefined
  readonly definition: JsonObject | undefined
  readonly isChanged: boolean
  readonly role: string
  /** What to set in an update, if the address has it. */
  readonly object: Json | undefined
}) {
  const { action } = place
  const [view, setView] = useState<'all' | 'own'>('all')
  const [onlyHidden, setOnlyHidden] = useState(false)
  const [chosen, setChosen] = useState<string>()
  const mayOwn = action === 'select' && !isChanged && definition !== undefined
  const isOwn = view === 'own' && mayOwn
  const { rows, seen, own, failure } = useTrial(trial, definition, isOwn)
  const isHidden = (row: JsonObject) => seen !== undefined && !seen.has(rowKey(row, table))
  const [yes, no] = action === 'select' ? ['seen', 'hidden'] : ['yes', 'no']
  const marked = (rows ?? []).map((row): GridRow => ({ ...row, [SEEN]: seen ? (isHidden(row) ? no : yes) : '' }))
  const listed: readonly GridRow[] = isOwn
    ? (own ?? [])
    : onlyHidden
      ? marked.filter((row) => row[SEEN] === no)
      : marked
  const hidden = marked.filter((row) => row[SEEN] === no).length
  const only = !isOwn && listed.length === 1 ? listed[0] : undefined
  const row = listed.find((each) => rowKey(each, table) === chosen) ?? only
  const mayAsk = table.primary_key.length > 0
  return (
    <>
      <div class="row try-summary">
        {mayOwn && (
          <Tabs
            label="Rows"
            tabs={[
              { key: 'all', title: 'All rows' },
              { key: 'own', title: `What ${role} gets` },
            ]}
            chosen={view}
            onChoose={setView}
          />
        )}
        {!isOwn && seen && (
          <span role="status">
            {isChanged && <b class="odd">With your changes: </b>}
            {role} may {hidden === marked.length && 'not '}
            {action}{' '}
            {marked.length === 1 ? (
              'this row'
            ) : hidden === marked.length ? (
              'any of these rows'
            ) : (
              <>
                <b>{marked.length - hidden}</b> of these {marked.length} rows
              </>
            )}
          </span>
        )}
        {!isOwn && hidden > 0 && (
          <label>
            <input
              type="checkbox"
              checked={onlyHidden}
              onChange={({ currentTarget }) => setOnlyHidden(currentTarget.checked)}
            />{' '}
            Only {action === 'select' ? 'hidden' : 'other'} rows
          </label>
        )}
        {isOwn && own && <span role="status">{own.length === 1 ? '1 row' : `${own.length} rows`}</span>}
        {trial && definition && <CountBoth trial={trial} />}
      </div>
      {trial && failure !== undefined && <Refusal of={failure} />}
      {!mayAsk && <p class="soft body">Without a primary key, rows cannot be marked or asked about.</p>}
      {(isOwn ? own : rows)?.length === 0 ? (
        <p class="empty">{isOwn ? `${role} gets no row.` : 'There is no such row.'}</p>
      ) : (
        <Grid
          label={isOwn ? `Rows that ${role} gets` : 'Rows, as admin sees them'}
          columns={columnsOf(
            table,
            isOwn ? own?.[0] : undefined,
            !isOwn && mayAsk,
            action === 'select' ? definition : undefined,
            role,
            action,
          )}
          rows={listed}
          chosen={row && listed.indexOf(row)}
          onChoose={(index) => setChosen(listed[index] && rowKey(listed[index], table))}
        />
      )}
      {row && mayAsk ? (
        <Asking
          key={rowKey(row, table)}
          place={place}
          table={table}
          rules={rules}
          row={row}
          isChanged={isChanged}
          definition={definition}
          object={object}
        />
      ) : (
        mayAsk && (
          <p class="soft body">
            Choose a row to see why {role} may or may not {action} it.
          </p>
        )
      )}
    </>
  )
}

/** An error of the server, or a hint at what to enter. */
const Refusal = ({ of }: { readonly of: unknown }) =>
  of instanceof Failure ? <Problem of={of} /> : <p class="body odd">{of instanceof Error ? of.message : String(of)}</p>

function columnsOf(
  table: Table,
  own: JsonObject | undefined,
  hasMark: boolean,
  definition: JsonObject | undefined,
  role: string,
  action: string,
): readonly GridColumn[] {
  const allowed = definition?.['columns']
  const isShown = (name: string) => !Array.isArray(allowed) || allowed.includes(name)
  const columns = table.columns
    .filter(({ name }) => !own || name in own)
    .map((column): GridColumn => {
      const base = { key: column.name, title: column.name, numeric: isNumeric(column), sortable: false }
      return isShown(column.name) ? { ...base, hint: column.type } : { ...base, hint: `hidden from ${role}` }
    })
  const mark: GridColumn = {
    key: SEEN,
    title: `${action}?`,
    render: (value: Json | undefined) => (
      <span class={value === 'hidden' || value === 'no' ? 'bad' : 'good'}>{textOf(value)}</span>
    ),
  }
  return hasMark ? [mark, ...columns] : columns
}

function Asking({
  place,
  table,
  rules,
  row,
  isChanged,
  definition,
  object: given,
}: {
  readonly place: Place
  readonly table: Table
  readonly rules: Rules
  readonly row: JsonObject
  readonly isChanged: boolean
  readonly definition: JsonObject | undefined
  readonly object: Json | undefined
}) {
  const { action } = place
  const [text, setText] = useState(() =>
    action !== 'update' ? '' : given === undefined ? objectFor(table, definition, row) : JSON.stringify(given, null, 2),
  )
  const object = action === 'update' ? parsed(text) : undefined
  const asked = { key: keyOf(row, table), ...(object !== undefined && { object }) }
  const variables = triedVariables()
  return (
    <div class="body asking">
      {action === 'update' && <ObjectField label="Columns to set" value={text} onChange={setText} />}
      {(action === 'update' && object === undefined) || (isChanged && !definition) ? (
        <p class="bad">This is not JSON yet.</p>
      ) : (
        <WhyAnswer
          place={place}
          table={table}
          rules={rules}
          asked={asked}
          variables={variables}
          permission={isChanged ? definition : undefined}
        />
      )}
      <p>
        <a href={whyAddress(place, asked, variables)}>
          {isChanged ? 'The answer without your changes' : 'This answer on a page of its own'}
        </a>
      </p>
    </div>
  )
}

function TryInsert({
  place,
  table,
  rules,
  definition,
  isChanged,
  asked: given,
}: {
  readonly place: Place
  readonly table: Table
  readonly rules: Rules
  readonly definition: JsonObject | undefined
  readonly isChanged: boolean
  readonly asked: Asked
}) {
  const [text, setText] = useState(() =>
    given.object === undefined ? objectFor(table, definition) : JSON.stringify(given.object, null, 2),
  )
  const [asked, setAsked] = useState(given.object)
  const object = parsed(text)
  return (
    <div class="body asking">
      <ObjectField label="Row to insert" value={text} onChange={setText} />
      <p class="row">
        <button type="button" class="primary" disabled={object === undefined} onClick={() => setAsked(object)}>
          Try the insert
        </button>
        <span class="soft">Nothing is stored: it is rolled back.</span>
      </p>
      {isChanged && !definition && <p class="bad">The permission is not JSON yet.</p>}
      {asked !== undefined && (!isChanged || definition) && (
        <WhyAnswer
          place={place}
          table={table}
          rules={rules}
          asked={{ object: asked }}
          variables={triedVariables()}
          permission={isChanged ? definition : undefined}
        />
      )}
    </div>
  )
}
