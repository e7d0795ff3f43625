import { useState } from 'preact/hooks'
import { isSystem, labelOf } from '../../../catalog.js'
import { Problem } from '../../../ui/problem.js'
import { asAdmin, type Preview, refOf, type Suggestion, useChange, useStructure, type WireName } from '../structure.js'
import { TrackOne } from './track-one.js'

/** What the database has and nothing tracks, with a tick for each part. */
export function Untracked({ preview, failure }: { readonly preview: Preview | undefined; readonly failure: unknown }) {
  const { catalog } = useStructure()
  if (failure !== undefined) return <Problem of={failure} />
  if (!preview) return <p class="wait">Comparing the database with the metadata …</p>
  const isEmpty = preview.tables.length + preview.relationships.length + preview.functions.length === 0
  return (
    <>
      <div class="bar">
        <h2>Not tracked</h2>
        <span class="soft">Requests see only tables, relationships and functions that are tracked.</span>
      </div>
      {isEmpty ? (
        <p class="empty">
          {catalog.tables.some((table) => !isSystem(table)) ? (
            'Everything that can be tracked is tracked.'
          ) : (
            <>
              The database has no table yet. <a href="/console/structure/sql">Create one with SQL</a>
            </>
          )}
        </p>
      ) : (
        <Choice key={keyOf(preview)} preview={preview} />
      )}
      <div class="body">
        {preview.remove.length > 0 && (
          <p class="bad">
            {preview.remove.length} objects of the metadata no longer match the database.{' '}
            <a href="/console/structure/metadata">See which</a>
          </p>
        )}
        <TrackOne />
        <LeftOut preview={preview} />
      </div>
    </>
  )
}

const keyOf = ({ tables, relationships, functions }: Preview): string =>
  JSON.stringify([tables, relationships.map(({ table, name }) => [table, name]), functions])

/** Items that are not ticked, and names of relationships that were changed. */
function Choice({ preview }: { readonly preview: Preview }) {
  const [unticked, setUnticked] = useState<ReadonlySet<string>>(new Set())
  const [names, setNames] = useState<ReadonlyMap<number, string>>(new Map())
  const { run, isBusy, failure } = useChange()
  const isTicked = (id: string) => !unticked.has(id)
  const tick = (ids: readonly string[], isOn: boolean) =>
    setUnticked(new Set(isOn ? [...unticked].filter((id) => !ids.includes(id)) : [...unticked, ...ids]))

  const isNew = (table: WireName) => preview.tables.some((each) => labelFor(each) === labelFor(table))
  const isPossible = ({ table, to }: Suggestion) =>
    [table, to].every((each) => !isNew(each) || isTicked(`table ${labelFor(each)}`))
  const isChosen = (suggestion: Suggestion, i: number) => isPossible(suggestion) && isTicked(`relationship ${i}`)
  const tables = preview.tables.filter((table) => isTicked(`table ${labelFor(table)}`))
  const functions = preview.functions.filter((name) => isTicked(`function ${labelFor(name)}`))
  const relationships = preview.relationships.flatMap((each, i) =>
    isChosen(each, i) ? [{ ...each, name: names.get(i) ?? each.name }] : [],
  )
  const count = tables.length + functions.length + relationships.length
  const isAll =
    names.size === 0 && count === preview.tables.length + preview.functions.length + preview.relationships.length
  const track = async () => {
    if (isAll) return asAdmin('track_all', {})
    const steps = [
      ...tables.map((table) => ({ type: 'track_table', args: typeof table === 'string' ? table : { table } })),
      ...relationships.map(({ table, name, type, using }) => ({
        type: `create_${type}_relationship`,
        args: { table, name, using },
      })),
      ...functions.map((name) => ({ type: 'track_function', args: { function: name } })),
    ]
    for (let from = 0; from < steps.length; from += MOST) await asAdmin('bulk', steps.slice(from, from + MOST))
    return undefined
  }
  const group = (title: string, ids: readonly string[]) => (
    <legend>
      <label>
        <input
          type="checkbox"
          checked={ids.every(isTicked)}
          onChange={({ currentTarget }) => tick(ids, currentTarget.checked)}
        />{' '}
        {title} <span class="count">{ids.length}</span>
      </label>
    </legend>
  )
  const item = (id: string, label: string) => (
    <label key={id} class="tick">
      <input
        type="checkbox"
        checked={isTicked(id)}
        onChange={({ currentTarget }) => tick([id], currentTarget.checked)}
      />{' '}
      <bdi>{label}</bdi>
    </label>
  )
  return (
    <form
      class="body track"
      onSubmit={(event) => {
        event.preventDefault()
        void run(track)
      }}
    >
      {preview.tables.length > 0 && (
        <fieldset>
          {group(
            'Tables and views',
            preview.tables.map((table) => `table ${labelFor(table)}`),
          )}
          <div class="ticks">{preview.tables.map((table) => item(`table ${labelFor(table)}`, labelFor(table)))}</div>
        </fieldset>
      )}
      {preview.relationships.length > 0 && (
        <fieldset>
          {group(
            'Relationships, from foreign keys',
            preview.relationships.map((_, i) => `relationship ${i}`),
          )}
          {preview.relationships.map((suggestion, i) => (
            <div class="suggestion" key={i}>
              <label class="tick">
                <input
                  type="checkbox"
                  checked={isChosen(suggestion, i)}
                  disabled={!isPossible(suggestion)}
                  onChange={({ currentTarget }) => tick([`relationship ${i}`], currentTarget.checked)}
                />{' '}
                <bdi>{labelFor(suggestion.table)}</bdi>
              </label>
              <input
                aria-label={`Name of the relationship from ${labelFor(suggestion.table)} to ${labelFor(suggestion.to)}`}
                value={names.get(i) ?? suggestion.name}
                required
                disabled={!isChosen(suggestion, i)}
                onInput={({ currentTarget }) => setNames(new Map([...names, [i, currentTarget.value]]))}
              />
              <span class="soft">
                {suggestion.type === 'object' ? 'one row of' : 'rows of'} <bdi>{labelFor(suggestion.to)}</bdi>
              </span>
            </div>
          ))}
        </fieldset>
      )}
      {preview.functions.length > 0 && (
        <fieldset>
          {group(
            'Functions',
            preview.functions.map((name) => `function ${labelFor(name)}`),
          )}
          <div class="ticks">{preview.functions.map((name) => item(`function ${labelFor(name)}`, labelFor(name)))}</div>
        </fieldset>
      )}
      {failure !== undefined && <Problem of={failure} />}
      <p class="row">
        <button class="primary" disabled={isBusy || count === 0}>
          {isBusy ? 'Tracking …' : `Track ${count} ${count === 1 ? 'item' : 'items'}`}
        </button>
        <span class="soft">No role gets a permission by this.</span>
      </p>
    </form>
  )
}

/** Members of a bulk. */
const MOST = 1000

const labelFor = (name: WireName): string => labelOf(refOf(name))

function LeftOut({ preview }: { readonly preview: Preview }) {
  if (preview.left_out.length === 0) return null
  return (
    <details>
      <summary>Left out ({preview.left_out.length})</summary>
      <dl class="reasons">
        {preview.left_out.map(({ name, reason }) => (
          <div key={name}>
            <dt>
              <code>{name}</code>
            </dt>
            <dd class="soft">{reason}</dd>
          </div>
        ))}
      </dl>
    </details>
  )
}
