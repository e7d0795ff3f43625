import { useEffect, useRef, useState } from 'preact/hooks'
import { type Column, labelOf, type Table } from '../../catalog.js'
import { Dialog } from '../../ui/dialog.js'
import { Problem } from '../../ui/problem.js'
import { save } from '../../ui/save.js'
import { type Cell, csvText } from './csv.js'
import { countRows, insertCsv, NOTHING, preview, type Progress } from './csv-insert.js'
import { insertable } from './writes.js'

/** Inserts the rows of a CSV file: choose it, say which column is which, watch it. */
export function CsvIn({
  table,
  dropped,
  onInserted,
  close,
}: {
  readonly table: Table
  readonly dropped: File | undefined
  readonly onInserted: (count: number) => void
  readonly close: () => void
}) {
  const [file, setFile] = useState(dropped)
  const [sample, setSample] = useState<readonly (readonly Cell[])[]>()
  const [mapping, setMapping] = useState<readonly (Column | undefined)[]>([])
  const [failure, setFailure] = useState<unknown>()
  const [chunk, setChunk] = useState<number>(CHUNKS[0])
  const [isRunning, setRunning] = useState(false)
  const columns = insertable(table)
  const count = useCount(file)
  useEffect(() => {
    if (!file) return
    setFailure(undefined)
    preview(file).then((rows) => {
      setSample(rows)
      setMapping((rows[0] ?? []).map((title) => columnNamed(columns, title)))
    }, setFailure)
  }, [file])
  const isEmpty = sample !== undefined && sample.length < 2
  return (
    <Dialog title={`Insert CSV into ${labelOf(table.table)}`} close={close}>
      {!isRunning && (
        <label>
          CSV file; its first line has the names of the columns{' '}
          <input
            type="file"
            accept=".csv,.tsv,.txt,text/csv"
            onChange={({ currentTarget }) => setFile(currentTarget.files?.[0])}
          />
        </label>
      )}
      {file && (isRunning || file === dropped) && <p class="soft">{file.name}</p>}
      {failure !== undefined && <Problem of={failure} />}
      {isEmpty && <p class="soft">This file has no rows below its first line.</p>}
      {file && sample && !isEmpty && !isRunning && (
        <>
          <Mapping sample={sample} columns={columns} mapping={mapping} onMapping={setMapping} />
          <Missing columns={columns} mapping={mapping} />
          <form
            class="row"
            onSubmit={(event) => {
              event.preventDefault()
              setRunning(true)
            }}
          >
            <button class="primary" disabled={mapping.every((each) => !each)}>
              Insert {count === undefined ? 'the' : count.toLocaleString('en')} {count === 1 ? 'row' : 'rows'}
            </button>
            <label>
              <select value={String(chunk)} onChange={({ currentTarget }) => setChunk(Number(currentTarget.value))}>
                {CHUNKS.map((each) => (
                  <option key={each}>{each}</option>
                ))}
              </select>{' '}
              at a time
            </label>
            <span class="soft">If one of these is wrong, none of them is inserted. The others still are.</span>
          </form>
        </>
      )}
      {file && isRunning && (
        <Insertion {...{ table, file, mapping, chunk, count, head: sample?.[0] ?? [], onInserted, close }} />
      )}
    </Dialog>
  )
}

/** Returns the number of rows of a file; undefined until it is read. */
function useCount(file: File | undefined): number | undefined {
  const [counted, setCounted] = useState<{ readonly file: File; readonly rows: number }>()
  useEffect(() => {
    if (!file) return
    const reading = new AbortController()
    countRows(file, reading.signal).then(
      (rows) => setCounted({ file, rows }),
      () => {},
    )
    return () => reading.abort()
  }, [file])
  return counted?.file === file ? counted?.rows : undefined
}

const columnNamed = (columns: readonly Column[], title: Cell): Column | undefined =>
  columns.find(({ name }) => name === title) ??
  columns.find(({ name }) => name.toLowerCase() === title?.trim().toLowerCase().replaceAll(/\s+/g, '_'))

function Mapping({
  sample: [head = [], ...rows],
  columns,
  mapping,
  onMapping,
}: {
  readonly sample: readonly (readonly Cell[])[]
  readonly columns: readonly Column[]
  readonly mapping: readonly (Column | undefined)[]
  readonly onMapping: (mapping: readonly (Column | undefined)[]) => void
}) {
  const choose = (index: number, name: string) =>
    onMapping(head.map((_, i) => (i === index ? columns.find((column) => column.name === name) : mapping[i])))
  return (
    <div class="preview" tabIndex={0} role="region" aria-label="First rows">
      <table>
        <thead>
          <tr>
            {head.map((title, i) => (
              <th key={i} scope="col">
                {title ?? <i class="soft">no title</i>}
              </th>
            ))}
          </tr>
          <tr>
            {head.map((title, i) => (
              <td key={i}>
                <select
                  aria-label={`Column for ${title ?? `cell ${i + 1}`}`}
                  value={mapping[i]?.name ?? ''}
                  onChange={({ currentTarget }) => choose(i, currentTarget.value)}
                >
                  <option value="">skip</option>
                  {columns.map(({ name }) => (
                    <option key={name} disabled={mapping.some((each, j) => j !== i && each?.name === name)}>
                      {name}
                    </option>
                  ))}
                </select>
              </td>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={i}>
              {head.map((_, j) => (
                <td key={j} class={mapping[j] ? undefined : 'soft'}>
                  {row[j] ?? <i class="soft">empty</i>}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Missing({
  columns,
  mapping,
}: {
  readonly columns: readonly Column[]
  readonly mapping: readonly (Column | undefined)[]
}) {
  const missing = columns.filter((column) => !column.nullable && !column.has_default && !mapping.includes(column))
  if (missing.length === 0) return null
  return <p class="bad">No cell for {missing.map(({ name }) => name).join(', ')}, which must have a value.</p>
}

/** Sizes of chunks. Small ones find the wrong rows, large ones are faster. */
const CHUNKS = [500, 50, 1] as const

function Insertion({
  table,
  file,
  mapping,
  chunk,
  count,
  head,
  onInserted,
  close,
}: {
  readonly table: Table
  readonly file: File
  readonly mapping: readonly (Column | undefined)[]
  /** How many rows are inserted together. */
  readonly chunk: number
  readonly count: number | undefined
  readonly head: readonly Cell[]
  readonly onInserted: (count: number) => void
  readonly close: () => void
}) {
  const [progress, setProgress] = useState<Progress>(NOTHING)
  const [state, setState] = useState<'running' | 'done' | 'stopped'>('running')
  const [failure, setFailure] = useState<unknown>()
  const running = useRef<AbortController>(undefined)
  useEffect(() => {
    const { signal } = (running.current = new AbortController())
    let latest = NOTHING
    const follow = (next: Progress) => setProgress((latest = next))
    insertCsv(table, file, mapping, chunk, signal, follow)
      .then(
        () => setState('done'),
        (error: unknown) => {
          setState('stopped')
          if (!signal.aborted) setFailure(error)
        },
      )
      .finally(() => onInserted(latest.inserted))
    return () => running.current?.abort()
  }, [])
  const { read, inserted, failed, refused, failedRows } = progress
  return (
    <>
      {state === 'running' && <progress aria-label="Inserting rows" {...(count && { value: read, max: count })} />}
      <p role="status">
        {inserted.toLocaleString('en')} rows inserted
        {failed > 0 && <span class="bad">, {failed.toLocaleString('en')} not inserted</span>}
        {state === 'done' && '. The file is finished.'}
        {state === 'stopped' && `. Stopped after row ${read.toLocaleString('en')}. The inserted rows stay.`}
      </p>
      {failure !== undefined && <Problem of={failure} />}
      {refused.length > 0 && (
        <ul class="refused" tabIndex={0} aria-label="Rows that were not inserted">
          {refused.map((each) => (
            <li key={each.first}>
              <b>{each.first === each.last ? `Row ${each.first}` : `Rows ${each.first} to ${each.last}`}</b>:{' '}
              {each.reason}
            </li>
          ))}
        </ul>
      )}
      <p class="row">
        {state === 'running' ? (
          <button type="button" onClick={() => running.current?.abort()}>
            Stop
          </button>
        ) : (
          <button type="button" class="primary" onClick={close}>
            Done
          </button>
        )}
        {state !== 'running' && failedRows.length > 0 && (
          <button
            type="button"
            onClick={() => save(new Blob([csvText([head, ...failedRows])], { type: 'text/csv' }), 'not-inserted.csv')}
          >
            Save these rows as CSV
          </button>
        )}
      </p>
    </>
  )
}
