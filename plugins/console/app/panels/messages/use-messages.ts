import { useEffect, useRef, useState } from 'preact/hooks'
import { ask, recovered, trouble } from '../../api.js'
import type { Message, OpenMessage } from './message.js'

const POLL_MS = 2000
const PAGE = 50

interface Page {
  readonly messages: readonly Message[]
  /** Cursor of the next older page; null if there is none. */
  readonly next: string | null
}

interface Messages extends Page {
  /** Whether the first page was read. */
  readonly isKnown: boolean
  readonly failure: unknown
  /** Reads the newest messages now. */
  refresh(): void
  /** Reads the next older page. */
  older(): Promise<void>
}

const NOTHING = { messages: [], next: null, isKnown: false } as const

/** The newest messages of a filter, read again while the page is visible, and the older ones that were asked for. */
export function useMessages(filter: string): Messages {
  const [state, setState] = useState<Page & { readonly isKnown: boolean }>(NOTHING)
  const [failure, setFailure] = useState<unknown>()
  const poll = useRef<() => void>(() => {})
  const reading = useRef<AbortSignal>(undefined)
  const read = (before: string | null, signal?: AbortSignal) =>
    ask<Page>(`/v1/send?limit=${PAGE}&${filter}${before === null ? '' : `&before=${before}`}`, { signal })

  // Before the first read there is nothing to read again.
  useEffect(() => poll.current(), [recovered.value])
  useEffect(() => {
    const ending = new AbortController()
    reading.current = ending.signal
    let timer: ReturnType<typeof setTimeout> | undefined
    let latest = 0
    const again = async () => {
      clearTimeout(timer)
      const current = ++latest
      try {
        if (trouble.value === '') {
          const page = await read(null, ending.signal)
          if (current !== latest) return
          setState((known) => merge(page, known))
          setFailure(undefined)
        }
      } catch (error) {
        if (ending.signal.aborted || current !== latest) return
        setFailure(error)
      }
      if (document.visibilityState === 'visible') timer = setTimeout(() => void again(), POLL_MS)
    }
    poll.current = () => void again()
    const onVisible = () => {
      clearTimeout(timer)
      if (document.visibilityState === 'visible') void again()
    }
    setState(NOTHING)
    setFailure(undefined)
    void again()
    document.addEventListener('visibilitychange', onVisible)
    return () => {
      clearTimeout(timer)
      ending.abort()
      document.removeEventListener('visibilitychange', onVisible)
    }
  }, [filter])

  const older = async () => {
    const wanted = reading.current
    try {
      const page = await read(state.next, wanted)
      setState((known) => {
        const loaded = new Set(known.messages.map(({ id }) => id))
        const messages = [...known.messages, ...page.messages.filter(({ id }) => !loaded.has(id))]
        return { messages, next: page.next, isKnown: true }
      })
    } catch (error) {
      if (!wanted?.aborted) setFailure(error)
    }
  }
  return { ...state, failure, refresh: () => poll.current(), older }
}

/** Puts the newest page before older messages that are loaded. */
function merge(page: Page, known: Page) {
  const fresh = new Set(page.messages.map(({ id }) => id))
  const overlap = known.messages.findLastIndex(({ id }) => fresh.has(id))
  const older = page.next !== null && overlap >= 0 ? known.messages.slice(overlap + 1) : []
  const next = older.length === 0 ? page.next : known.next
  return { messages: [...page.messages, ...older], next, isKnown: true }
}

/**
 * One message with its contents.
 * @param version changes when the message has changed
 */
export function useMessage(id: string, version: string) {
  const [state, setState] = useState<{ readonly message?: OpenMessage; readonly failure?: unknown }>({})
  useEffect(() => {
    const reading = new AbortController()
    ask<OpenMessage>(`/v1/send/${encodeURIComponent(id)}`, { signal: reading.signal }).then(
      (message) => setState({ message }),
      (failure: unknown) => {
        if (!reading.signal.aborted) setState((before) => ({ ...before, failure }))
      },
    )
    return () => reading.abort()
  }, [id, version, recovered.value])
  return state.message && state.message.id !== id ? {} : state
}
