import { useState } from 'preact/hooks'
import { Failure } from '../../api.js'
import type { Table } from '../../catalog.js'
import { Confirm } from '../../ui/confirm.js'
import { Findings } from '../../ui/findings.js'
import { Problem } from '../../ui/problem.js'
import { ColumnsField } from './columns-field.js'
import { type Draft, draftOf, type Flag, HAS, keepDraft, permissionOf } from './draft.js'
import { Conflicts, wordsOf } from './inherited.js'
import { findingsAt, type Part, partOf } from './lint-places.js'
import { PresetsField } from './presets-field.js'
import { RuleField } from './rule-field.js'
import { ACTIONS, type Permission, permissionAt, type Place, type Rules, savePermission, titleOf } from './rules.js'

const FLAGS: Readonly<Record<Flag, string>> = {
  allow_aggregations: 'Allow aggregations such as counts and sums',
  allow_upsert: 'Update an existing row instead of refusing it (on_conflict)',
  backend_only: 'Only for requests of your own servers (backend_only)',
}

/** The form of one permission. */
export function RuleForm({
  place,
  table,
  rules,
  draft,
  isChanged,
  saved,
  from,
  why,
}: {
  readonly place: Place
  readonly table: Table
  readonly rules: Rules
  readonly draft: Draft
  readonly isChanged: boolean
  readonly saved: Permission | undefined
  /** The roles whose permission this one would replace. */
  readonly from: readonly string[] | undefined
  /** Address of the answer from which the user came. */
  readonly why: string | undefined
}) {
  const { action, role } = place
  const [failure, setFailure] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const [isDropping, setDropping] = useState(false)
  const [done, setDone] = useState('')
  const has = HAS[action]
  const change = (by: Partial<Draft>) => {
    setFailure(undefined)
    setDone('')
    keepDraft(place, { ...draft, ...by })
  }
  const put = async (permission: Permission | undefined) => {
    await savePermission(place, saved, permission)
    keepDraft(place, undefined)
    setFailure(undefined)
    setDone(permission ? 'Saved.' : 'Deleted.')
  }
  const save = async () => {
    setBusy(true)
    setDone('')
    try {
      await put(permissionOf(draft, action))
    } catch (error) {
      setFailure(error)
    }
    setBusy(false)
  }
  const failing = failure === undefined ? undefined : failure instanceof Failure ? partOf(failure.path) : ''
  const found = findingsAt(place)
  const problem = (part: Part) => (
    <>
      {failing === part && (
        <Problem of={failure}>
          <Conflicts of={failure} rules={rules} />
        </Problem>
      )}
      <Findings of={found.filter(({ path }) => partOf(path) === part)} />
    </>
  )
  const ruled = { table, rules }
  return (
    <form
      class="rule-form"
      aria-label="Permission"
      onSubmit={(event) => {
        event.preventDefault()
        void save()
      }}
    >
      {!saved && (
        <p class="soft">
          {from
            ? `This replaces what ${role} inherits from ${wordsOf(from)}.`
            : `${role} may not ${action} rows of ${titleOf(table.table)} yet.`}
        </p>
      )}
      <CopyFrom place={place} rules={rules} copy={(from) => change(draftOf(from, action))} />
      {has.has('filter') && (
        <RuleField
          label={`Rows that ${role} may ${action}`}
          hint='{"customer_id": "X-Service-User-Id"}'
          value={draft.filter}
          onChange={(filter) => change({ filter })}
          {...ruled}
        >
          {problem('filter')}
        </RuleField>
      )}
      {has.has('check') && (
        <RuleField
          label={`What a row must be after the ${action}`}
          hint='{"customer_id": "X-Service-User-Id"}'
          value={draft.check}
          onChange={(check) => change({ check })}
          {...ruled}
        >
          {problem('check')}
        </RuleField>
      )}
      {has.has('columns') && (
        <ColumnsField draft={draft} change={change} table={table} hasComputed={has.has('computed')} />
      )}
      {problem('columns')}
      {has.has('presets') && <PresetsField draft={draft} change={change} table={table} />}
      {problem('set')}
      <section class="rule-field">
        <h3>Options</h3>
        {(Object.keys(FLAGS) as Flag[]).map(
          (flag) =>
            has.has(flag) && (
              <label key={flag}>
                <input
                  type="checkbox"
                  checked={draft.flags[flag]}
                  onChange={({ currentTarget }) => change({ flags: { ...draft.flags, [flag]: currentTarget.checked } })}
                />{' '}
                {FLAGS[flag]}
              </label>
            ),
        )}
        {has.has('limit') && (
          <label class="row">
            Rows per request, at most
            <input
              type="number"
              min={0}
              value={draft.limit}
              placeholder="no limit"
              onInput={({ currentTarget }) => change({ limit: currentTarget.value })}
            />
          </label>
        )}
        {problem('limit')}
        <label>
          Comment
          <input
            class="wide"
            value={draft.comment}
            autocomplete="off"
            onInput={({ currentTarget }) => change({ comment: currentTarget.value })}
          />
        </label>
      </section>
      {problem('')}
      <div class="rule-actions">
        <button class="primary" disabled={isBusy || (!isChanged && saved !== undefined)}>
          {saved ? 'Save changes' : 'Create this permission'}
        </button>
        {(isChanged || from) && (
          <button type="button" onClick={() => keepDraft(place, undefined)}>
            Undo changes
          </button>
        )}
        {isChanged && <b class="odd">Unsaved</b>}
        <span role="status">
          {done !== '' && !isChanged && (
            <>
              <span class="good">{done}</span> {why !== undefined && <a href={why}>Ask why again</a>}
            </>
          )}
        </span>
        {saved && (
          <button type="button" class="quiet danger push" onClick={() => setDropping(true)}>
            Delete this permission
          </button>
        )}
      </div>
      {isDropping && (
        <Confirm
          title="Delete this permission?"
          verb="Delete the permission"
          run={() => put(undefined)}
          close={() => setDropping(false)}
        >
          <p>
            {rules.inherited.has(role)
              ? `${role} then has what it inherits from ${wordsOf(rules.inherited.get(role) ?? [])}.`
              : `${role} can then ${action} no row of ${titleOf(table.table)}.`}
          </p>
        </Confirm>
      )}
    </form>
  )
}

function CopyFrom({
  place,
  rules,
  copy,
}: {
  readonly place: Place
  readonly rules: Rules
  readonly copy: (from: Permission) => void
}) {
  const others = rules.roles.flatMap((role) =>
    ACTIONS.flatMap((action) => {
      const permission = permissionAt({ ...place, role, action })
      return permission && !permission.from && !(role === place.role && action === place.action)
        ? [{ name: `${role}: ${action}`, permission }]
        : []
    }),
  )
  if (others.length === 0) return null
  return (
    <select
      class="copy"
      aria-label="Copy from another permission"
      value=""
      onChange={({ currentTarget }) => {
        const from = others.find(({ name }) => name === currentTarget.value)
        currentTarget.value = ''
        if (from) copy(from.permission)
      }}
    >
      <option value="">Copy from another permission …</option>
      {others.map(({ name }) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  )
}
