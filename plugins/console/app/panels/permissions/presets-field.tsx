import type { Table } from '../../catalog.js'
import type { Draft, Preset } from './draft.js'

/** Values that the server sets, whatever the client sends. */
export function PresetsField({
  draft: { presets },
  change,
  table,
}: {
  readonly draft: Draft
  readonly change: (by: Partial<Draft>) => void
  readonly table: Table
}) {
  const put = (index: number, by: Partial<Preset>) =>
    change({ presets: presets.map((each, i) => (i === index ? { ...each, ...by } : each)) })
  return (
    <section class="rule-field">
      <h3>Values that the server sets</h3>
      {presets.map(({ column, value }, i) => (
        <div class="preset" key={i}>
          <select
            aria-label="Column to set"
            value={column}
            onChange={({ currentTarget }) => put(i, { column: currentTarget.value })}
          >
            <option value="">column …</option>
            {table.columns
              .filter(({ generated, name }) => !generated || name === column)
              .map(({ name }) => (
                <option key={name}>{name}</option>
              ))}
          </select>
          <input
            aria-label={`Value of ${column || 'the column'}`}
            placeholder="X-Service-User-Id, or JSON"
            value={value}
            spellcheck={false}
            autocomplete="off"
            onInput={({ currentTarget }) => put(i, { value: currentTarget.value })}
          />
          <button
            type="button"
            class="quiet"
            onClick={() => change({ presets: presets.filter((_, other) => other !== i) })}
          >
            Remove
          </button>
        </div>
      ))}
      <button type="button" class="quiet" onClick={() => change({ presets: [...presets, { column: '', value: '' }] })}>
        Add a value
      </button>
    </section>
  )
}
