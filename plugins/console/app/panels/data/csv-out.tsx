import { useEffect, useRef, useState } from 'preact/hooks'
import { send } from '../../api.js'
import { labelOf, type Table } from '../../catalog.js'
import { Dialog } from '../../ui/dialog.js'
import { Problem } from '../../ui/problem.js'
import { save } from '../../ui/save.js'
import { bytesText } from './sizes.js'
import { selectArgs, type View } from './view.js'

/** Saves all rows of a view as a CSV file, while they arrive. */
export function CsvOut({
  table,
  view,
  close,
}: {
  readonly table: Table
  readonly view: View
  readonly close: () => void
}) {
  const [progress, setProgress] = useState({ rows: 0, bytes: 0, isDone: false })
  const [failure, setFailure] = useState<unknown>()
  const reading = useRef<AbortController>(undefined)
  useEffect(() => {
    const { signal } = (reading.current = new AbortController())
    download(table, view, signal, setProgress).catch((error: unknown) => {
      if (!signal.aborted) setFailure(error)
    })
    return () => reading.current?.abort()
  }, [])
  const { rows, bytes, isDone } = progress
  return (
    <Dialog title="Save as CSV" close={close}>
      <p role="status">
        {rows.toLocaleString('en')} rows, {bytesText(bytes)}
        {isDone && '. The file is saved.'}
      </p>
      {!isDone && failure === undefined && <progress aria-label="Loading rows" />}
      {table.limit !== null && (
        <p class="soft">This role reads at most {table.limit.toLocaleString('en')} rows in one request.</p>
      )}
      {failure !== undefined && (
        <>
          <Problem of={failure} />
          <p class="soft">The rows broke off, so no file was saved. Close this and try again.</p>
        </>
      )}
      <p class="row">
        <button type="button" onClick={close}>
          {isDone || failure !== undefined ? 'Close' : 'Stop'}
        </button>
      </p>
    </Dialog>
  )
}

/** Bytes that are collected before the browser gets them, which keeps large files on disk. */
const PART_BYTES = 16 * 1024 * 1024

async function download(
  table: Table,
  view: View,
  signal: AbortSignal,
  onProgress: (progress: { readonly rows: number; readonly bytes: number; readonly isDone: boolean }) => void,
): Promise<void> {
  const response = await send('/v1/query', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Accept: 'text/csv' },
    body: JSON.stringify({ type: 'select', args: selectArgs(table, view) }),
    signal,
  })
  const counter = new RowCounter()
  const parts: Blob[] = []
  let waiting: BlobPart[] = []
  let waitingBytes = 0
  let bytes = 0
  const keep = () => {
    parts.push(new Blob(waiting))
    waiting = []
    waitingBytes = 0
  }
  const reader = response.body!.getReader()
  for (let shown = 0; ;) {
    const { done, value } = await reader.read()
    if (done) break
    waiting.push(value)
    bytes += value.length
    waitingBytes += value.length
    counter.add(value)
    if (waitingBytes > PART_BYTES) keep()
    if (performance.now() - shown > 100) {
      onProgress({ rows: counter.rows, bytes, isDone: false })
      shown = performance.now()
    }
  }
  keep()
  save(new Blob(parts, { type: 'text/csv' }), `${labelOf(table.table).replaceAll(/[^\w.-]/g, '_')}.csv`)
  onProgress({ rows: counter.rows, bytes, isDone: true })
}

/** Counts the rows of a CSV text below its head. A line end within quotes ends no row. */
class RowCounter {
  #lines = 0
  #isQuoted = false
  get rows(): number {
    return Math.max(0, this.#lines - 1)
  }
  add(bytes: Uint8Array): void {
    for (const byte of bytes) {
      if (byte === QUOTE) this.#isQuoted = !this.#isQuoted
      else if (byte === LINE_FEED && !this.#isQuoted) this.#lines++
    }
  }
}
const QUOTE = 34
const LINE_FEED = 10
