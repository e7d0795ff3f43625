import { useRef, useState } from 'preact/hooks'
import { Problem } from '../../ui/problem.js'
import { sizeText } from './file-table.js'
import {
  continueUpload,
  discard,
  drop,
  dropStored,
  pause,
  resume,
  retryAsReplacement,
  type Unfinished,
  unfinishedUploads,
  type Upload,
  uploads,
  type UploadState,
} from './uploads.js'

const STATES: Readonly<Record<UploadState, string>> = {
  waiting: 'waiting',
  running: '',
  paused: 'paused',
  stored: 'stored',
  failed: '',
}

/** The uploads of the caller: those of this page, and those that a closed page did not finish. */
export function UploadList() {
  const [, refresh] = useState(0)
  const shown = uploads.value
  const unfinished = unfinishedUploads()
  if (shown.length + unfinished.length === 0) return null
  const stored = shown.filter(({ state }) => state === 'stored').length
  return (
    <section class="uploads" aria-label="Uploads">
      <div class="row">
        <b role="status">
          {shown.length === 0
            ? 'Uploads'
            : `${stored} of ${shown.length} ${shown.length === 1 ? 'file' : 'files'} stored`}
        </b>
        {stored > 0 && (
          <button type="button" class="quiet push" onClick={dropStored}>
            Hide stored files
          </button>
        )}
      </div>
      <ul>
        {shown.map((each) => (
          <Item key={each.key} of={each} />
        ))}
        {unfinished.map((each) => (
          <UnfinishedItem key={each.storageKey} of={each} onChange={() => refresh((n) => n + 1)} />
        ))}
      </ul>
    </section>
  )
}

function Item({ of: { key, id, size, sent, state, failure, exists } }: { readonly of: Upload }) {
  const percent = size === 0 ? 100 : Math.floor((sent / size) * 100)
  return (
    <li>
      <span class="name">
        <bdi>{id}</bdi>
      </span>
      {state === 'stored' && <span class="good">{sizeText(size)}, stored</span>}
      {exists && <span class="soft">{sizeText(size)}</span>}
      {state !== 'stored' && !exists && (
        <span class="row">
          <progress max={100} value={percent} aria-label={`Progress of ${id}`} />
          <span class="soft">
            {percent} % of {sizeText(size)}
            {STATES[state] === '' ? '' : `, ${STATES[state]}`}
          </span>
        </span>
      )}
      <span class="row">
        {(state === 'running' || state === 'waiting') && (
          <button type="button" class="quiet" aria-label={`Pause ${id}`} onClick={() => pause(key)}>
            Pause
          </button>
        )}
        {(state === 'paused' || (state === 'failed' && !exists)) && (
          <button type="button" class="quiet" aria-label={`Resume ${id}`} onClick={() => resume(key)}>
            {state === 'paused' ? 'Resume' : 'Try again'}
          </button>
        )}
        {exists && (
          <button type="button" class="quiet" aria-label={`Replace ${id}`} onClick={() => retryAsReplacement(key)}>
            Replace the file
          </button>
        )}
        {state !== 'stored' && (
          <button type="button" class="quiet" aria-label={`Cancel ${id}`} onClick={() => drop(key)}>
            Cancel
          </button>
        )}
      </span>
      {exists && (
        <span class="bad reason" role="alert">
          There is a file with this id already.
        </span>
      )}
      {failure && !exists && <Problem of={failure} />}
    </li>
  )
}

function UnfinishedItem({ of, onChange }: { readonly of: Unfinished; readonly onChange: () => void }) {
  const input = useRef<HTMLInputElement>(null)
  const [failure, setFailure] = useState<unknown>()
  const remove = () => discard(of).then(onChange, setFailure)
  const choose = (file: File | undefined) => {
    if (!file) return
    if (file.size === of.size) continueUpload(of, file)
    else setFailure(`That is another file: it has ${sizeText(file.size)}, and the upload has ${sizeText(of.size)}.`)
  }
  return (
    <li>
      <span class="name">
        <bdi>{of.id}</bdi>
      </span>
      <span class="soft">{sizeText(of.size)}, not finished before the page was closed</span>
      <span class="row">
        <button type="button" class="quiet" onClick={() => input.current?.click()}>
          Choose the file again to go on
        </button>
        <input
          ref={input}
          type="file"
          hidden
          aria-label={`File to go on with ${of.id}`}
          onChange={({ currentTarget }) => {
            choose(currentTarget.files?.[0])
            currentTarget.value = ''
          }}
        />
        <button type="button" class="quiet" aria-label={`Discard ${of.id}`} onClick={() => void remove()}>
          Discard
        </button>
      </span>
      {failure !== undefined && <Problem of={failure} />}
    </li>
  )
}
