import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { isSystem, labelOf, type Table } from '../../../catalog.js'
import { Problem } from '../../../ui/problem.js'
import { addressOf, rowsAddressOf, useStructure } from '../structure.js'
import { Drawing } from './drawing.js'
import { type Detail, graphOf, type Placed } from './graph.js'
import { saveSvg } from './save.js'
import { useView } from './view.js'

/** With more tables than this, the diagram begins with their names only. */
const MANY = 30

/** The tracked tables and their relationships as a drawing. */
export function Diagram() {
  const { catalog } = useStructure()
  const { query, route } = useLocation()
  const all = useMemo(() => catalog.tables.filter((table) => !isSystem(table)), [catalog])
  const schemas = useMemo(() => [...new Set(all.map(({ table }) => table.schema))], [all])
  const [schema, setSchema] = useState('')
  const [search, setSearch] = useState('')
  const [centre, setCentre] = useState(query['table'])
  const [detail, setDetail] = useState<Detail>(all.length > MANY ? 'names' : 'keys')
  const [chosen, setChosen] = useState(query['table'])
  const tables = useMemo(() => shownOf(all, schema, search, centre), [all, schema, search, centre])
  const { placed, failure } = usePlaced(tables, detail)
  const box = useRef<HTMLDivElement>(null)
  const drawing = useRef<SVGGElement>(null)
  const { view, zoom, fit, show, onKeyDown } = useView(box, placed)
  const open = (label: string) => route(addressOf(label))
  const focused = (id: string | null | undefined) => {
    const node = placed?.nodes.find((each) => each.id === id)
    if (node) show(node)
  }
  if (all.length === 0)
    return (
      <p class="empty">
        No table is tracked yet. <a href="/console/structure">See what can be tracked</a>
      </p>
    )
  const table = all.find((each) => labelOf(each.table) === chosen)
  return (
    <div class="page diagram">
      <div class="bar">
        <input
          type="search"
          aria-label="Filter tables"
          placeholder="Filter tables"
          value={search}
          onInput={({ currentTarget }) => setSearch(currentTarget.value)}
        />
        {schemas.length > 1 && (
          <select aria-label="Schema" value={schema} onChange={({ currentTarget }) => setSchema(currentTarget.value)}>
            <option value="">all schemas</option>
            {schemas.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        )}
        <select
          aria-label="What to show of tables"
          value={detail}
          onChange={({ currentTarget }) => setDetail(currentTarget.value as Detail)}
        >
          <option value="names">names</option>
          <option value="keys">keys</option>
          <option value="columns">all columns</option>
        </select>
        {centre !== undefined && (
          <button type="button" onClick={() => setCentre(undefined)}>
            Only around {centre} ×
          </button>
        )}
        <span class="soft">
          {tables.length} of {all.length} tables
        </span>
        <span class="row push">
          <button type="button" aria-label="Zoom out" onClick={() => zoom(1 / 1.25)}>
            −
          </button>
          <button type="button" aria-label="Zoom in" onClick={() => zoom(1.25)}>
            +
          </button>
          <button type="button" onClick={fit}>
            Fit
          </button>
          <button
            type="button"
            disabled={!placed}
            onClick={() => drawing.current && placed && saveSvg(drawing.current, placed)}
          >
            Save as SVG
          </button>
        </span>
      </div>
      {failure !== undefined && <Problem of={failure} />}
      <div
        class="canvas"
        ref={box}
        tabIndex={0}
        role="group"
        aria-label="Diagram of tables. Arrow keys move it, plus and minus zoom, 0 fits it in."
        onKeyDown={onKeyDown}
        onFocusIn={({ target }) => {
          const node = (target as Element).closest('[data-table]')
          if (node?.matches(':focus-visible')) focused(node.getAttribute('data-table'))
        }}
        onClick={({ target }) => {
          if (!(target as Element).closest('.table, .about')) setChosen(undefined)
        }}
      >
        {tables.length === 0 && <p class="empty">No table matches.</p>}
        {placed && (
          <svg aria-hidden={placed.nodes.length === 0}>
            <g ref={drawing} transform={`translate(${view.x} ${view.y}) scale(${view.scale})`}>
              <Drawing placed={placed} chosen={chosen} choose={setChosen} open={open} />
            </g>
          </svg>
        )}
        {table && (
          <About
            table={table}
            close={() => setChosen(undefined)}
            centre={() => {
              setCentre(labelOf(table.table))
              setSearch('')
            }}
          />
        )}
      </div>
    </div>
  )
}

function About({
  table,
  close,
  centre,
}: {
  readonly table: Table
  readonly close: () => void
  readonly centre: () => void
}) {
  const label = labelOf(table.table)
  return (
    <aside class="about" aria-label={label}>
      <div class="row">
        <h2>
          <bdi>{label}</bdi>
        </h2>
        <button type="button" class="quiet push" aria-label="Close" onClick={close}>
          ×
        </button>
      </div>
      {table.comment !== undefined && <p class="comment">{table.comment}</p>}
      <p class="soft">
        {table.columns.length} columns, {table.relationships.length} relationships
      </p>
      <p class="row">
        <a href={rowsAddressOf(label)}>Rows</a>
        <a href={addressOf(label)}>Structure</a>
        <button type="button" class="quiet" onClick={centre}>
          Only around it
        </button>
      </p>
    </aside>
  )
}

/** Returns the tables that match, or those around one table. */
function shownOf(all: readonly Table[], schema: string, search: string, centre: string | undefined): readonly Table[] {
  const wanted = search.trim().toLowerCase()
  const around = all.find(({ table }) => labelOf(table) === centre)
  const isAround = ({ table, relationships }: Table): boolean =>
    around === undefined ||
    labelOf(table) === centre ||
    around.relationships.some((each) => labelOf(each.table) === labelOf(table)) ||
    relationships.some((each) => labelOf(each.table) === centre)
  return all.filter(
    (each) =>
      (schema === '' || each.table.schema === schema) &&
      labelOf(each.table).toLowerCase().includes(wanted) &&
      isAround(each),
  )
}

/** Places tables by the library for layouts, which is loaded for it. */
function usePlaced(tables: readonly Table[], detail: Detail) {
  const [placed, setPlaced] = useState<Placed>()
  const [failure, setFailure] = useState<unknown>()
  useEffect(() => {
    let isCurrent = true
    const { nodes, edges } = graphOf(tables, detail)
    import('./layout.js').then(
      ({ place }) => isCurrent && setPlaced(place(nodes, edges)),
      (error: unknown) => isCurrent && setFailure(error),
    )
    return () => {
      isCurrent = false
    }
  }, [tables, detail])
  return { placed, failure }
}
