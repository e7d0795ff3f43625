import { useCallback, useEffect, useState } from 'preact/hooks'
import { ask, recovered } from '../../api.js'
import { Confirm } from '../../ui/confirm.js'
import { fieldsOf } from '../../ui/form.js'
import { Problem } from '../../ui/problem.js'
import { Time } from './parts.js'

interface Entry {
  readonly address: string
  readonly reason: string
  readonly created_at: string
}

const PATH = '/v1/send/suppressed'
/** Addresses of one answer. */
const PAGE = 1000
const TYPING_MS = 250

/** Addresses that get no mail. */
export function Suppressed() {
  const [search, setSearch] = useState('')
  const { entries, hasMore, failure, read, more } = useEntries(search)
  const [removing, setRemoving] = useState<Entry>()
  return (
    <div class="scroll body suppressed">
      <p class="soft">
        These addresses get no mail. Permanent bounces and complaints that a provider reports add their address.
      </p>
      <Add done={read} />
      <div class="row">
        <input
          type="search"
          aria-label="Search addresses"
          placeholder="Search addresses"
          autocomplete="off"
          value={search}
          onInput={({ currentTarget }) => setSearch(currentTarget.value)}
        />
        <span class="soft" role="status">
          {entries && `${entries.length}${hasMore ? '+' : ''} ${entries.length === 1 ? 'address' : 'addresses'}`}
        </span>
      </div>
      {failure !== undefined && <Problem of={failure} />}
      {!entries && failure === undefined && <p class="wait">Loading …</p>}
      {entries?.length === 0 && (
        <p class="empty">{search === '' ? 'No address is suppressed.' : 'No suppressed address matches.'}</p>
      )}
      <ul class="message-list entries">
        {entries?.map((entry) => (
          <li key={entry.address}>
            <span class="title">{entry.address}</span>
            <Time at={entry.created_at} />
            <span class="to">{entry.reason}</span>
            <button
              type="button"
              class="quiet"
              aria-label={`Remove ${entry.address}`}
              onClick={() => setRemoving(entry)}
            >
              Remove
            </button>
          </li>
        ))}
      </ul>
      {hasMore && (
        <button type="button" onClick={more}>
          More addresses
        </button>
      )}
      {removing && <Remove entry={removing} close={() => setRemoving(undefined)} done={read} />}
    </div>
  )
}

function useEntries(search: string) {
  const [entries, setEntries] = useState<readonly Entry[]>()
  const [failure, setFailure] = useState<unknown>()
  const [hasMore, setHasMore] = useState(false)
  const load = async (known: readonly Entry[], signal?: AbortSignal) => {
    const wanted = new URLSearchParams({ search, after: known.at(-1)?.address ?? '' })
    try {
      const { suppressed } = await ask<{ readonly suppressed: readonly Entry[] }>(`${PATH}?${wanted}`, { signal })
      setEntries([...known, ...suppressed])
      setHasMore(suppressed.length === PAGE)
      setFailure(undefined)
    } catch (error) {
      if (!signal?.aborted) setFailure(error)
    }
  }
  const read = useCallback(() => void load([]), [search])
  useEffect(() => {
    const reading = new AbortController()
    const timer = setTimeout(() => void load([], reading.signal), entries === undefined ? 0 : TYPING_MS)
    return () => {
      clearTimeout(timer)
      reading.abort()
    }
  }, [search, recovered.value])
  return { entries, hasMore, failure, read, more: () => void load(entries ?? []) }
}

function Add({ done }: { readonly done: () => void }) {
  const [failure, setFailure] = useState<unknown>()
  const submit = async (event: SubmitEvent) => {
    const form = event.currentTarget as HTMLFormElement
    const { address = '', reason = '' } = fieldsOf(event)
    try {
      await ask(PATH, { json: { address, reason: reason.trim() === '' ? null : reason } })
      form.reset()
      setFailure(undefined)
      done()
    } catch (error) {
      setFailure(error)
    }
  }
  return (
    <>
      <form class="row add" aria-label="Add an address" onSubmit={(event) => void submit(event)}>
        <label>
          Address <input name="address" required autocomplete="off" spellcheck={false} />
        </label>
        <label>
          Reason <input name="reason" autocomplete="off" placeholder="added by an admin" />
        </label>
        <button>Suppress</button>
      </form>
      {failure !== undefined && <Problem of={failure} />}
    </>
  )
}

function Remove({
  entry,
  close,
  done,
}: {
  readonly entry: Entry
  readonly close: () => void
  readonly done: () => void
}) {
  const remove = async () => {
    await ask(`${PATH}/${encodeURIComponent(entry.address)}`, { method: 'DELETE' })
    done()
  }
  return (
    <Confirm title="Remove from the suppression list" verb="Remove" run={remove} close={close}>
      <p>
        <b class="recipient">{entry.address}</b> gets mail again. It was suppressed on{' '}
        <Time at={entry.created_at} withDate />:
      </p>
      <blockquote>{entry.reason}</blockquote>
    </Confirm>
  )
}
