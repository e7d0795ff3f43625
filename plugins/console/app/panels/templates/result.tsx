import { useMemo, useState } from 'preact/hooks'
import { type Json, numberOf } from '../../json.js'
import { keepPlot, keptPlot } from '../../kept-plot.js'
import { Chart } from '../../ui/chart.js'
import { Code } from '../../ui/code.js'
import { flatten } from '../../ui/flat.js'
import { Grid, type GridColumn, type GridRow } from '../../ui/grid.js'
import { Tabs } from '../../ui/tabs.js'

export interface Result {
  readonly json: Json
  /** Rows and time, in words. */
  readonly figures: string
}

const VIEWS = [
  { key: 'grid', title: 'Grid' },
  { key: 'plot', title: 'Plot' },
  { key: 'json', title: 'JSON' },
] as const

/** The answer of a template as a grid and a plot, if it has rows, and as JSON. */
export function ResultView({ result: { json }, name }: { readonly result: Result; readonly name: string }) {
  const [plot, setPlot] = useState(() => keptPlot(name))
  const [view, setView] = useState<(typeof VIEWS)[number]['key']>(plot ? 'plot' : 'grid')
  const rows = useMemo(() => rowsOf(json), [json])
  const flat = useMemo(() => (rows ? flatten(rows) : undefined), [rows])
  if (rows?.length === 0) return <p class="empty">There are no such rows, or this role may not see them.</p>
  return (
    <section aria-label="Result" class="template-result">
      {rows && <Tabs label="Views of the result" tabs={VIEWS} chosen={view} onChoose={setView} />}
      {rows && view === 'grid' ? (
        <div class="template-grid">
          <Grid label={`Rows of ${name}`} rows={rows} columns={columnsOf(rows)} />
        </div>
      ) : flat && view === 'plot' ? (
        <div class="template-grid plotted">
          <Chart
            flat={flat}
            chosen={plot}
            onChoose={(next) => {
              keepPlot(name, next)
              setPlot(next)
            }}
          />
        </div>
      ) : (
        <JsonText json={json} />
      )}
    </section>
  )
}

function JsonText({ json }: { readonly json: Json }) {
  const text = useMemo(() => JSON.stringify(json, null, 2), [json])
  if (text.length <= MOST_TEXT) return <Code label="Result as JSON" text={text} />
  return (
    <>
      <p class="soft">The first {MOST_TEXT.toLocaleString('en')} characters:</p>
      <Code label="Result as JSON" text={text.slice(0, MOST_TEXT)} />
    </>
  )
}
const MOST_TEXT = 200_000

/** Returns the rows of an answer: those of a select, or those that a write returns. */
function rowsOf(json: Json): readonly GridRow[] | undefined {
  if (Array.isArray(json)) return json.every(isRow) ? (json as readonly GridRow[]) : undefined
  const returning = isRow(json) ? json['returning'] : undefined
  return Array.isArray(returning) && returning.length > 0 ? rowsOf(returning as Json) : undefined
}

const isRow = (value: Json): value is GridRow =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && Object.getPrototypeOf(value) !== null

function columnsOf(rows: readonly GridRow[]): readonly GridColumn[] {
  const keys = new Set(rows.slice(0, 100).flatMap((row) => Object.keys(row)))
  return [...keys].map((key) => {
    const first = rows.find((row) => row[key] !== null)?.[key]
    return { key, title: key, numeric: numberOf(first) !== undefined }
  })
}
