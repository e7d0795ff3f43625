import { labelOf, type Table } from '../../catalog.js'
import { Failure } from '../../api.js'
import type { Json, JsonObject } from '../../json.js'
import { Findings } from '../../ui/findings.js'
import { draftOf, HAS, keepDraft, pretty } from './draft.js'
import { findingsAt } from './lint-places.js'
import { addressOf } from './question.js'
import { Sentence } from './rule-field.js'
import { type Action, type Permission, type Place, type Rules, titleOf } from './rules.js'

/** `author, reviewer and counter` */
export const wordsOf = (names: readonly string[]): string =>
  names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`

/** A permission that a role has from others. It is read only. */
export function InheritedPermission({
  place,
  table,
  rules,
  permission,
  from,
}: {
  readonly place: Place
  readonly table: Table
  readonly rules: Rules
  readonly permission: Permission
  readonly from: readonly string[]
}) {
  const { action, role } = place
  const { definition, inSomeRows = {} } = permission
  const rule = (key: 'filter' | 'check', title: string) =>
    HAS[action].has(key) &&
    definition[key] !== undefined && (
      <section class="rule-field">
        <h3>{title}</h3>
        <pre tabIndex={0} aria-label={title}>
          {pretty(definition[key])}
        </pre>
        <Sentence text={pretty(definition[key])} table={table} rules={rules} />
      </section>
    )
  const options = Object.entries(definition).filter(([key]) => !SHOWN.includes(key))
  return (
    <section class="rule-form" aria-label="Inherited permission">
      <p>
        {role} inherits this from{' '}
        {from.map((each, i) => (
          <>
            {i > 0 && (i === from.length - 1 ? ' and ' : ', ')}
            <a href={addressOf({ ...place, role: each })}>{each}</a>
          </>
        ))}
        . Change it there.
      </p>
      {rule('filter', `Rows that ${role} may ${action}`)}
      {rule('check', `What a row must be after the ${action}`)}
      {HAS[action].has('columns') && (
        <section class="rule-field">
          <h3>Columns</h3>
          <ul class="ticks">
            {namesOf(definition, table).map((name) => (
              <li key={name}>
                {name}
                {inSomeRows[name] && <span class="soft"> only in rows of {wordsOf(inSomeRows[name])}</span>}
              </li>
            ))}
          </ul>
          {Object.keys(inSomeRows).length > 0 && <p class="soft">In other rows these columns are null.</p>}
        </section>
      )}
      {options.length > 0 && (
        <section class="rule-field">
          <h3>Options</h3>
          {options.map(([key, value]) => (
            <code key={key}>
              {key}: {pretty(value ?? null)}
            </code>
          ))}
        </section>
      )}
      <Findings of={findingsAt(place)} />
      <div class="rule-actions">
        <button type="button" onClick={() => keepDraft(place, ownDraft(permission, action, table))}>
          Give {role} a permission of its own
        </button>
        <span class="soft">It replaces the inherited one.</span>
      </div>
    </section>
  )
}

const SHOWN = ['filter', 'check', 'columns', 'computed_fields']

function namesOf({ columns = '*', computed_fields: computed = [] }: JsonObject, table: Table): readonly string[] {
  const named = columns === '*' ? table.columns.map(({ name }) => name) : (columns as readonly string[])
  return [...named, ...(computed as readonly string[])]
}

/** Returns the form of an inherited permission without the columns that it gives in some rows only. */
function ownDraft({ definition, inSomeRows = {}, comment }: Permission, action: Action, table: Table) {
  const some = Object.keys(inSomeRows)
  const without = (names: Json | undefined, all: readonly string[]): Json =>
    (names === '*' ? all : ((names ?? []) as readonly string[])).filter((name) => !some.includes(name))
  if (some.length === 0) return draftOf({ definition, comment }, action)
  const columns = without(
    definition['columns'],
    table.columns.map(({ name }) => name),
  )
  const computed = without(definition['computed_fields'], [])
  return draftOf({ definition: { ...definition, columns, computed_fields: computed }, comment }, action)
}

/** Links to the permissions that a role needs itself, because those of its parts contradict each other. */
export function Conflicts({ of, rules }: { readonly of: unknown; readonly rules: Rules }) {
  const message = of instanceof Failure && of.code === 'dependency-error' ? of.message : ''
  const places = [...message.matchAll(CONFLICT)].flatMap(([, role = '', action, name]): readonly Place[] => {
    const table = rules.tables.find((each) => labelOf(each.table) === name)?.table
    return table ? [{ table, role, action: action as Action }] : []
  })
  if (places.length === 0) return null
  return (
    <ul aria-label="Permissions to create first">
      {places.map((place) => (
        <li key={JSON.stringify(place)}>
          <a href={addressOf(place)}>
            {place.role} on {titleOf(place.table)}: {place.action}
          </a>
        </li>
      ))}
    </ul>
  )
}
const CONFLICT = /role "([^"]+)" would inherit different (insert|update|delete) permissions on "([^"]+)"/g
