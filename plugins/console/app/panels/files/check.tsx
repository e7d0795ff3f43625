import { useEffect, useState } from 'preact/hooks'
import { query, recovered } from '../../api.js'
import { timeText } from '../../time.js'
import { Problem } from '../../ui/problem.js'
import { addressOf, folderOf, sizeText } from './file-table.js'

interface Finding {
  readonly kind: string
  readonly blob: string
  readonly provider: string
  readonly file_id?: string
  readonly path?: string
  readonly detail: string
  readonly advice?: string
}
interface Result {
  readonly ended_at: string
  readonly deep: boolean
  readonly error?: string
  readonly clean?: boolean
  readonly files?: number
  readonly stores?: readonly {
    readonly provider: string
    readonly objects?: number
    readonly bytes?: number
    readonly problem?: string
    readonly notes: readonly string[]
  }[]
  readonly findings?: readonly Finding[]
  readonly total_findings?: number
}
interface State {
  readonly running: { readonly started_at: string; readonly progress: string } | null
  readonly last: Result | null
}

const POLL_MS = 1000

/** Compares files with their stored bytes, and shows what is missing or damaged. */
export function Check({ close }: { readonly close: () => void }) {
  const [state, setState] = useState<State>()
  const [failure, setFailure] = useState<unknown>()
  const [isDeep, setDeep] = useState(false)
  const isRecovered = recovered.value
  const call = (args: object, signal?: AbortSignal) =>
    query<State>('check_files', args, { as: null, signal }).then(
      (found) => {
        setFailure(undefined)
        setState(found)
      },
      (error: unknown) => {
        if (!signal?.aborted) setFailure(error)
      },
    )
  const isRunning = (state?.running ?? null) !== null
  useEffect(() => {
    const asking = new AbortController()
    void call({}, asking.signal)
    const timer = isRunning ? setInterval(() => void call({}, asking.signal), POLL_MS) : undefined
    return () => {
      clearInterval(timer)
      asking.abort()
    }
  }, [isRunning, isRecovered])
  return (
    <>
      <p>
        A check compares the files with the bytes in the stores, while the server keeps running. It changes nothing.
      </p>
      <p class="row">
        {isRunning ? (
          <button type="button" onClick={() => void call({ stop: true })}>
            Stop
          </button>
        ) : (
          <button type="button" class="primary" onClick={() => void call({ start: true, deep: isDeep })}>
            Check now
          </button>
        )}
        <label>
          <input
            type="checkbox"
            checked={isDeep}
            disabled={isRunning}
            onChange={({ currentTarget }) => setDeep(currentTarget.checked)}
          />{' '}
          Read the bytes of all files, which takes longer
        </label>
      </p>
      {failure !== undefined && <Problem of={failure} />}
      <div role="status">
        {state?.running && <p class="soft">Checking … {state.running.progress}</p>}
        {state?.last && !isRunning && <Last of={state.last} close={close} />}
        {state && !state.last && !isRunning && (
          <p class="soft">
            This server has not checked its files since it started. Servers check them slowly in the background too.
          </p>
        )}
      </div>
    </>
  )
}

function Last({ of, close }: { readonly of: Result; readonly close: () => void }) {
  const { findings = [], total_findings: total = 0 } = of
  const when = <span class="soft">{timeText(of.ended_at)}</span>
  if (of.error !== undefined) {
    return (
      <p class="bad">
        {of.error === 'stopped' ? 'The check was stopped.' : `${of.error}.`} {when}
      </p>
    )
  }
  return (
    <>
      <p>
        {of.clean ? (
          <b class="good">All is well.</b>
        ) : (
          <b class="bad">{total === 1 ? '1 finding' : `${total} findings`}.</b>
        )}{' '}
        {of.files} files were {of.deep ? 'read' : 'compared'}. {when}
      </p>
      <ul class="soft">
        {of.stores?.map(({ provider, objects, bytes, problem, notes }) => (
          <li key={provider}>
            Store {provider}: {objects === undefined ? 'not listed' : `${objects} objects, ${sizeText(bytes)}`}
            {problem !== undefined && <span class="bad">. {problem}</span>}
            {notes.map((note) => `. ${note}`)}
          </li>
        ))}
      </ul>
      {findings.length > 0 && (
        <ul class="findings">
          {findings.map((each) => (
            <li key={`${each.kind} ${each.blob}`}>
              <b class="bad">{each.kind}</b>{' '}
              {each.file_id !== undefined && (
                <a href={addressOf({ folder: folderOf(each.file_id), file: each.file_id })} onClick={close}>
                  <bdi>{each.file_id}</bdi>
                </a>
              )}{' '}
              {each.detail}
              <p class="soft mono">{each.path ?? `${each.provider} ${each.blob}`}</p>
              {each.advice !== undefined && <p class="soft">To do: {each.advice}.</p>}
            </li>
          ))}
        </ul>
      )}
      {total > findings.length && (
        <p class="soft">
          These are the first {findings.length}. <code>rowhouse fsck</code> lists all.
        </p>
      )}
    </>
  )
}
