import { useEffect, useRef, useState } from 'preact/hooks'
import { type Column, labelOf, type Table } from '../../catalog.js'
import { Dialog } from '../../ui/dialog.js'
import { Problem } from '../../ui/problem.js'
import { save } from '../../ui/save.js'
import { type Cell, csvText } from './csv.js'
import { insertCsv, NOTHING, preview, type Progress } from './csv-insert.js'
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
  readonly onInserted: () => void
  readonly close: () => void
}) {
  const [file, setFile] = useState(dropped)
  const [sample, setSample] = useState<readonly (readonly Cell[])[]>()
  const [mapping, setMapping] = useState<readonly (Column | undefined)[]>([])
  const [failure, setFailure] = useState<unknown>()
  const [isRunning, setRunning] = useState(false)
  const columns = insertable(table)
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
          File with a head line{' '}
          <input
            type="file"
            accept=".csv,.tsv,.txt,text/csv"
            onChange={({ currentTarget }) => setFile(currentTarget.files?.[0])}
          />
        </label>
      )}
      {file && (isRunning || file === dropped) && <p class="soft">{file.name}</p>}
      {failure !== undefined && <Problem of={failure} />}
      {isEmpty && <p class="soft">This file has no rows below its head.</p>}
      {file && sample && !isEmpty && !isRunning && (
        <>
          <Mapping sample={sample} columns={columns} mapping={mapping} onMapping={setMapping} />
          <Missing columns={columns} mapping={mapping} />
          <p class="row">
            <button
              type="button"
              class="primary"
              disabled={mapping.every((each) => !each)}
              onClick={() => setRunning(true)}
            >
              Insert the rows
            </button>
          </p>
        </>
      )}
      {file && isRunning && <Insertion {...{ table, file, mapping, head: sample?.[0] ?? [], onInserted, close }} />}
    </Dialog>
  )
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
  head,
  onInserted,
  close,
}: {
  readonly table: Table
  readonly file: File
  readonly mapping: readonly (Column | undefined)[]
  readonly head: readonly Cell[]
  readonly onInserted: () => void
  readonly close: () => void
}) {
  const [chunk, setChunk] = useState<number>()
  const [progress, setProgress] = useState<Progress>(NOTHING)
  const [state, setState] = useState<'running' | 'done' | 'stopped'>()
  const [failure, setFailure] = useState<unknown>()
  const running = useRef<AbortController>(undefined)
  useEffect(() => () => running.current?.abort(), [])
  const start = (size: number) => {
    const { signal } = (running.current = new AbortController())
    setChunk(size)
    setState('running')
    insertCsv(table, file, mapping, size, signal, setProgress)
      .then(
        () => setState('done'),
        (error: unknown) => {
          setState('stopped')
          if (!signal.aborted) setFailure(error)
        },
      )
      .finally(onInserted)
  }
  if (state === undefined) {
    return (
      <form
        onSubmit={(event) => {
          event.preventDefault()
          start(chunk ?? CHUNKS[0])
        }}
      >
        <label>
          Rows that are inserted together{' '}
          <select
            value={String(chunk ?? CHUNKS[0])}
            onChange={({ currentTarget }) => setChunk(Number(currentTarget.value))}
          >
            {CHUNKS.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <p class="soft">If one of them is wrong, none of them is inserted. The others still are.</p>
        <p class="row">
          <button class="primary">Start</button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </p>
      </form>
    )
  }
  const { read, inserted, failed, refused, failedRows } = progress
  return (
    <>
      {state === 'running' && <progress aria-label="Inserting rows" />}
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
