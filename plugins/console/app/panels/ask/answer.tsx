import { useEffect, useMemo, useState } from 'preact/hooks'
import { catalog } from '../../catalog.js'
import type { Json } from '../../json.js'
import { Chart } from '../../ui/chart.js'
import type { Choice } from '../../ui/figures.js'
import { type Flat, flatten, pretty } from '../../ui/flat.js'
import { Grid } from '../../ui/grid.js'
import { save } from '../../ui/save.js'
import { Tabs } from '../../ui/tabs.js'
import { Tree } from '../../ui/tree.js'
import { type Answer, MOST_ROWS } from './run.js'

export type View = 'grid' | 'plot' | 'tree' | 'json'

/** An answer as a grid, a plot, a tree or JSON. */
export function AnswerView({
  answer,
  wanted,
  onWant,
  plot,
  onPlot,
}: {
  readonly answer: Answer
  readonly wanted: View
  readonly onWant: (view: View) => void
  /** The plot that was chosen; without it, a guess. */
  readonly plot: Choice | undefined
  readonly onPlot: (plot: Choice) => void
}) {
  const { rows, json, state } = answer
  const flat = useMemo(() => (rows ? flatten(rows) : undefined), [answer])
  const view = flat || wanted === 'json' ? wanted : 'tree'
  const tabs = [
    ...(flat ? [{ key: 'grid', title: 'Grid' } as const, { key: 'plot', title: 'Plot' } as const] : []),
    { key: 'tree', title: 'Tree' } as const,
    { key: 'json', title: 'JSON' } as const,
  ]
  return (
    <>
      <div class="answer-bar">
        <Tabs label="The answer as" tabs={tabs} chosen={view} onChoose={onWant} />
        <Figures answer={answer} />
        {state !== 'reading' && (
          <button
            type="button"
            class="quiet"
            onClick={() => save(new Blob([textOf(json)], { type: 'application/json' }), 'answer.json')}
          >
            Save
          </button>
        )}
      </div>
      {answer.isDry && <p class="note odd">Dry run: the server rolled it back.</p>}
      {NOTES[state] && <p class={`note ${state === 'broken' ? 'bad' : 'soft'}`}>{NOTES[state]}</p>}
      <div class="answer-body" role="tabpanel" aria-label="Answer">
        {view === 'grid' && flat && <Rows flat={flat} />}
        {view === 'plot' && flat && <Chart flat={flat} chosen={plot} onChoose={onPlot} />}
        {view === 'tree' && <Tree label="Answer" value={json} />}
        {view === 'json' && <JsonText json={json} />}
      </div>
    </>
  )
}

const NOTES: Readonly<Record<Answer['state'], string>> = {
  reading: '',
  complete: '',
  stopped: 'You stopped the request. These are the rows until then.',
  capped: `The console keeps at most ${MOST_ROWS.toLocaleString('en')} rows or 64 MiB of an answer, and stopped reading.`,
  broken: 'The answer ended early: the server or the connection failed. These are the rows until then.',
}

function Figures({ answer: { rows, bytes, ms, state } }: { readonly answer: Answer }) {
  const parts = [
    ...(rows ? [`${rows.length.toLocaleString('en')} ${rows.length === 1 ? 'row' : 'rows'}`] : []),
    sizeText(bytes),
    ms < 1000 ? `${Math.max(1, Math.round(ms))} ms` : `${(ms / 1000).toFixed(1)} s`,
  ]
  return (
    <span class="soft figures" role="status">
      {state === 'reading' ? 'Reading: ' : ''}
      {parts.join(' · ')}
    </span>
  )
}

const sizeText = (bytes: number): string =>
  bytes < 1024
    ? `${bytes} B`
    : bytes < 1024 * 1024
      ? `${(bytes / 1024).toFixed(1)} KiB`
      : `${(bytes / 1024 / 1024).toFixed(1)} MiB`

function Rows({ flat: { rows, columns } }: { readonly flat: Flat }) {
  if (rows.length === 0)
    return <p class="empty">{catalog.value ? 'There are no such rows, or this role may not see them.' : ''}</p>
  return <Grid label="Rows of the answer" rows={rows} columns={columns} />
}

/** Maximum characters of JSON that are shown; the rest is in the file that one can save. */
const MOST_TEXT = 300_000

function JsonText({ json }: { readonly json: Json }) {
  const [isCopied, setCopied] = useState(false)
  const text = useMemo(() => textOf(json), [json])
  useEffect(() => setCopied(false), [text])
  return (
    <div class="code json-text">
      {text.length > MOST_TEXT && (
        <p class="soft note">The first {MOST_TEXT.toLocaleString('en')} characters. “Save” has all of them.</p>
      )}
      <pre tabIndex={0} aria-label="Answer as JSON">
        {text.slice(0, MOST_TEXT)}
      </pre>
      <button type="button" onClick={() => void navigator.clipboard.writeText(text).then(() => setCopied(true))}>
        {isCopied ? 'Copied' : 'Copy'}
      </button>
    </div>
  )
}

/** Writes an answer with a line for each row. */
const textOf = (json: Json): string =>
  Array.isArray(json) && json.length > 200
    ? `[${(json as readonly Json[]).map((row) => JSON.stringify(row)).join(',\n ')}]`
    : pretty(json)
