import { effect, signal } from '@preact/signals'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { query, trouble } from '../../api.js'
import { isAdmin } from '../../session.js'
import { Problem } from '../../ui/problem.js'
import { clockText } from '../../time.js'
import {
  added,
  type Level,
  LEVELS,
  type LogAnswer,
  type LogState,
  matching,
  type NumberedLine,
  shownOf,
} from './log-lines.js'
import { useRepeated } from './watch.js'

const EVERY_MS = 2000

const log = signal<LogState | undefined>(undefined)
effect(() => {
  if (!isAdmin.value) log.value = undefined
})

/** The last lines of the server's log. */
export function Log() {
  const [isFollowing, follow] = useState(true)
  const [level, setLevel] = useState<Level>('trace')
  const [search, setSearch] = useState('')
  const [failure, setFailure] = useState<unknown>()
  useRepeated(
    async (abort) => {
      try {
        const after = log.peek()?.last ?? 0
        const answer = await query<LogAnswer>('log_lines', { after }, { as: null, signal: abort })
        if (abort.aborted) return
        log.value = added(log.peek(), answer)
        setFailure(undefined)
      } catch (error) {
        if (!abort.aborted) setFailure(error)
      }
    },
    EVERY_MS,
    isFollowing,
  )
  const state = log.value
  const lines = state ? matching(state.lines, level, search) : []
  return (
    <div class="log-page">
      <div class="bar">
        <label class="row">
          From level
          <select value={level} onChange={({ currentTarget }) => setLevel(currentTarget.value as Level)}>
            {LEVELS.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <input
          type="search"
          aria-label="Search the lines"
          placeholder="Search the lines"
          value={search}
          onInput={({ currentTarget }) => setSearch(currentTarget.value)}
        />
        <button type="button" aria-pressed={isFollowing} onClick={() => follow(!isFollowing)}>
          {isFollowing ? 'Pause' : 'Follow'}
        </button>
        <span class="soft">{isFollowing ? 'New lines are added every two seconds.' : 'Paused.'}</span>
      </div>
      {failure !== undefined && trouble.value === '' && <Problem of={failure} />}
      {lines.length > 0 && <Lines lines={lines} isFollowing={isFollowing} />}
      {!state && failure === undefined && <p class="wait">Loading …</p>}
      {state && lines.length === 0 && <NoLines hasLines={state.lines.length > 0} />}
    </div>
  )
}

const NoLines = ({ hasLines }: { readonly hasLines: boolean }) =>
  hasLines ? (
    <p class="empty">No line matches. Choose another level or search.</p>
  ) : (
    <p class="empty">
      The log is empty. <code>rowhouse dev</code> writes only warnings and errors; <code>--verbose</code> or{' '}
      <code>log.level</code> makes it write requests, too.
    </p>
  )

/** Distance from the end, in pixels, within which the list stays at its end. */
const NEAR = 40

function Lines({ lines, isFollowing }: { readonly lines: readonly NumberedLine[]; readonly isFollowing: boolean }) {
  const list = useRef<HTMLDivElement>(null)
  const isAtEnd = useRef(true)
  const last = lines.at(-1)?.number
  useLayoutEffect(() => {
    if (isFollowing && isAtEnd.current && list.current) list.current.scrollTop = list.current.scrollHeight
  }, [last, isFollowing])
  const onScroll = ({
    currentTarget: { scrollHeight, scrollTop, clientHeight },
  }: Event & { currentTarget: HTMLElement }) => {
    isAtEnd.current = scrollHeight - scrollTop - clientHeight < NEAR
  }
  return (
    <div class="log" role="log" aria-live="off" aria-label="Log" tabIndex={0} ref={list} onScroll={onScroll}>
      <ol>
        {lines.map((line) => (
          <Line key={line.number} of={line} />
        ))}
      </ol>
    </div>
  )
}

const LEVEL_CLASS: Readonly<Record<string, string>> = { warn: 'odd', error: 'bad', fatal: 'bad' }

function Line({ of: { line } }: { readonly of: NumberedLine }) {
  const { level, time, message, rest, stack } = shownOf(line)
  return (
    <li>
      <time dateTime={time} title={time}>
        {clockText(time)}
      </time>{' '}
      <span class={LEVEL_CLASS[level] ?? 'soft'}>{level}</span>{' '}
      <span>
        <b>{message}</b> <span class="soft">{rest}</span>
        {stack !== '' && <pre>{stack}</pre>}
      </span>
    </li>
  )
}
