import { useEffect, useRef, useState } from 'preact/hooks'
import { useLocation, useRoute } from 'preact-iso'
import { labelOf, type Table } from '../../catalog.js'
import { type Json, type JsonObject, textOf } from '../../json.js'
import { variablesIn } from 'rowhouse/sentence'
import { acting } from '../../session.js'
import { fieldsOf } from '../../ui/form.js'
import { parsed } from './draft.js'
import { ObjectField, objectFor } from './object-field.js'
import { addressOf, askedIn, type Given, useGivenSession, whyAddress } from './question.js'
import { ACTIONS, permissionAt, type Place, type Rules, tableNamed, titleOf } from './rules.js'
import { Session, tried, triedVariables } from './session-fields.js'
import type { Asked } from './trial.js'
import { WhyAnswer } from './why-answer.js'

/**
 * Why a role may or may not do something: `/console/permissions/why?role=...&table=...&operation=...`, with `key` or `object`
 * as JSON, and `user` or `session`.
 */
export function WhyPage({ rules }: { readonly rules: Rules }) {
  const { route } = useLocation()
  const given = useRoute().query as Given
  const table = tableNamed(given['table']) ?? rules.tables[0]
  useGivenSession(given)
  if (!table || rules.roles.length === 0) {
    return (
      <p class="empty">
        No role has a permission yet. <a href="/console/permissions">Give the first one</a>
      </p>
    )
  }
  const role = given['role'] ?? acting.value?.role ?? rules.roles[0] ?? ''
  const place: Place = {
    table: table.table,
    role,
    action: ACTIONS.find((each) => each === given['operation']) ?? 'select',
  }
  const asked = askedIn(given, table)
  const isKnown = tableNamed(given['table']) !== undefined || given['table'] === undefined
  const isComplete =
    (place.action === 'insert' || asked.key !== undefined) &&
    (asked.object !== undefined || place.action === 'select' || place.action === 'delete')
  const go = (next: Place, about: Asked = {}) => route(whyAddress(next, about, triedVariables()))
  return (
    <div class="page permissions scroll">
      <div class="bar">
        <a href="/console/permissions">Permissions</a>
        <h2>Why?</h2>
      </div>
      <div class="body why-page">
        {!isKnown && <p class="bad">There is no tracked table {given['table']}.</p>}
        <div class="row">
          <Choice
            label="Role"
            value={role}
            options={[...new Set([...rules.roles, role])]}
            choose={(next) => go({ ...place, role: next })}
          />
          <Choice
            label="Operation"
            value={place.action}
            options={ACTIONS}
            choose={(action) => go({ ...place, action })}
          />
          <Choice
            label="Table"
            value={labelOf(table.table)}
            options={rules.tables.map((each) => labelOf(each.table))}
            titles={rules.tables.map((each) => titleOf(each.table))}
            choose={(name) => go({ ...place, table: tableNamed(name)?.table ?? table.table })}
          />
          <Session names={[...new Set(['x-service-user-id', ...variablesIn(permissionAt(place)?.definition)])]} />
        </div>
        <Question
          key={JSON.stringify([place, given['key'], given['object']])}
          place={place}
          table={table}
          asked={asked}
          ask={(about) => go(place, about)}
        />
        {isComplete && (
          <>
            <WhyAnswer
              place={place}
              table={table}
              rules={rules}
              asked={asked}
              variables={tried.value && triedVariables()}
            />
            <p>
              <a href={addressOf(place, asked, triedVariables())}>Change the permission</a>
            </p>
          </>
        )}
      </div>
    </div>
  )
}

function Choice<K extends string>({
  label,
  value,
  options,
  titles = options,
  choose,
}: {
  readonly label: string
  readonly value: K
  readonly options: readonly K[]
  readonly titles?: readonly string[]
  readonly choose: (value: K) => void
}) {
  return (
    <label>
      {label}{' '}
      <select value={value} onChange={({ currentTarget }) => choose(currentTarget.value as K)}>
        {options.map((each, i) => (
          <option key={each} value={each}>
            {titles[i]}
          </option>
        ))}
      </select>
    </label>
  )
}

/** Asks for the key of a row, and for what is written. */
function Question({
  place: { action, ...place },
  table,
  asked,
  ask,
}: {
  readonly place: Place
  readonly table: Table
  readonly asked: Asked
  readonly ask: (asked: Asked) => void
}) {
  const form = useRef<HTMLFormElement>(null)
  // A link led here; a choice of the form above keeps the focus.
  useEffect(() => {
    if (asked.key === undefined && document.activeElement === document.body)
      form.current?.querySelector('input')?.focus()
  }, [])
  const known = (asked.key ?? {}) as JsonObject
  const names = [...new Set([...table.primary_key, ...Object.keys(known)])]
  const definition = permissionAt({ ...place, action })?.definition
  const [text, setText] = useState(() =>
    asked.object === undefined
      ? objectFor(table, definition, action === 'update' ? {} : undefined)
      : JSON.stringify(asked.object, null, 2),
  )
  const object = parsed(text)
  const submit = (event: SubmitEvent) => {
    const fields = fieldsOf(event)
    const key = Object.fromEntries(
      names.map((name, i) => [name, valueFor(table, name, fields[`key${i}`] ?? '', known[name])]),
    )
    ask({
      ...(action !== 'insert' && { key }),
      ...((action === 'insert' || action === 'update') && object !== undefined && { object }),
    })
  }
  return (
    <form class="question" ref={form} onSubmit={submit}>
      {action !== 'insert' && (
        <div class="row">
          {names.length === 0 && <span>This table has no primary key, so a row cannot be named here.</span>}
          {names.map((name, i) => (
            <label key={name}>
              {name}{' '}
              <input
                name={`key${i}`}
                defaultValue={textOf(known[name])}
                required
                autocomplete="off"
                spellcheck={false}
              />
            </label>
          ))}
        </div>
      )}
      {(action === 'insert' || action === 'update') && (
        <ObjectField label={action === 'insert' ? 'Row to insert' : 'Columns to set'} value={text} onChange={setText} />
      )}
      <p>
        <button class="primary" disabled={(action === 'insert' || action === 'update') && object === undefined}>
          Why?
        </button>
      </p>
    </form>
  )
}

/** Returns the value that somebody entered for a column of the key, or the known one if its text is the same. */
function valueFor(table: Table, name: string, text: string, known: Json | undefined): Json {
  if (known !== undefined && textOf(known) === text) return known
  const type = table.columns.find((each) => each.name === name)?.type
  return type === 'bool' ? text === 'true' : text
}
