import { useEffect, useRef, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { Code } from '../../ui/code.js'
import { Problem } from '../../ui/problem.js'
import { KINDS, type Message, recipientOf, searchable, STATES, titleOf } from './message.js'
import { MessageView } from './message-view.js'
import { State, StateOf, Time } from './parts.js'
import { useMessages } from './use-messages.js'

const ROOT = '/console/messages'

/** The messages, newest first, and one of them. */
export function Outbox({ id }: { readonly id: string }) {
  const { query, route } = useLocation()
  const [search, setSearch] = useState('')
  const filter = filterOf(query)
  const { messages, next, isKnown, failure, refresh, older } = useMessages(filter)
  const list = useRef<HTMLUListElement>(null)
  const words = search.toLowerCase().split(/\s+/).filter(Boolean)
  const found = messages.filter((message) => {
    const text = searchable(message)
    return words.every((word) => text.includes(word))
  })
  const addressOf = (to: string) => `${ROOT}${to === '' ? '' : `/${to}`}${filter === '' ? '' : `?${filter}`}`
  const close = () => {
    route(addressOf(''))
    list.current?.querySelector<HTMLElement>(`[data-id="${CSS.escape(id)}"]`)?.focus()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape' && id !== '' && !document.querySelector('dialog[open]')) close()
  }
  const showAll = () => {
    setSearch('')
    route(ROOT, true)
  }
  return (
    <div class={id === '' ? 'outbox' : 'outbox open'} onKeyDown={onKeyDown}>
      <section class="scroll all" aria-label="All messages">
        <Filters search={search} setSearch={setSearch} query={query} id={id} />
        <p class="soft" role="status">
          {countOf(found.length, messages.length, next !== null, words.length > 0)}
        </p>
        {failure !== undefined && <Problem of={failure} />}
        <ul class="message-list" ref={list} onKeyDown={moveInList}>
          {found.map((message) => (
            <Row key={message.id} message={message} href={addressOf(message.id)} isOpen={message.id === id} />
          ))}
        </ul>
        {next !== null && <Older load={older} />}
        {!isKnown && failure === undefined && <p class="wait">Loading …</p>}
        {isKnown &&
          found.length === 0 &&
          (filter !== '' || words.length > 0 ? <NoMatch showAll={showAll} /> : <FirstSteps />)}
      </section>
      {id !== '' && (
        <MessageView
          key={id}
          id={id}
          listed={messages.find((message) => message.id === id)}
          close={close}
          refresh={refresh}
        />
      )}
    </div>
  )
}

/** Returns the part of the address that filters. */
function filterOf(query: Readonly<Record<string, string>>): string {
  const kept = ['state', 'kind'].filter((key) => query[key]).map((key) => [key, query[key]!])
  return new URLSearchParams(kept).toString()
}

function countOf(found: number, all: number, hasMore: boolean, isSearch: boolean): string {
  if (all === 0) return ''
  if (isSearch) return `${found} of ${all} loaded messages`
  return `${all}${hasMore ? '+' : ''} ${all === 1 && !hasMore ? 'message' : 'messages'}`
}

function Filters({
  search,
  setSearch,
  query,
  id,
}: {
  readonly search: string
  readonly setSearch: (text: string) => void
  readonly query: Readonly<Record<string, string>>
  readonly id: string
}) {
  const { route } = useLocation()
  const choose = (key: string, value: string) => {
    const filter = filterOf({ ...query, [key]: value })
    route(`${ROOT}${id === '' ? '' : `/${id}`}${filter === '' ? '' : `?${filter}`}`, true)
  }
  return (
    <form class="row" role="search" onSubmit={(event) => event.preventDefault()}>
      <input
        type="search"
        aria-label="Search the loaded messages"
        placeholder="Address, subject, id"
        autocomplete="off"
        value={search}
        onInput={({ currentTarget }) => setSearch(currentTarget.value)}
      />
      <Choice
        label="State"
        value={query['state'] ?? ''}
        options={Object.entries(STATES)}
        onChange={(value) => choose('state', value)}
      />
      <Choice
        label="Kind"
        value={query['kind'] ?? ''}
        options={Object.entries(KINDS)}
        onChange={(value) => choose('kind', value)}
      />
    </form>
  )
}

const Choice = ({
  label,
  value,
  options,
  onChange,
}: {
  readonly label: string
  readonly value: string
  readonly options: readonly (readonly [value: string, text: string])[]
  readonly onChange: (value: string) => void
}) => (
  <label class="soft">
    {label}{' '}
    <select value={value} onChange={({ currentTarget }) => onChange(currentTarget.value)}>
      <option value="">any</option>
      {options.map(([key, text]) => (
        <option key={key} value={key}>
          {text}
        </option>
      ))}
    </select>
  </label>
)

const Row = ({
  message,
  href,
  isOpen,
}: {
  readonly message: Message
  readonly href: string
  readonly isOpen: boolean
}) => (
  <li>
    <a href={href} data-id={message.id} aria-current={isOpen ? 'true' : undefined}>
      <span class="title">{titleOf(message)}</span>
      <Time at={message.created_at} />
      <span class="to">
        {KINDS[message.kind]} to {recipientOf(message)}
      </span>
      {message.delivery && message.state === 'sent' ? <State of={message.delivery} /> : <StateOf message={message} />}
    </a>
  </li>
)

/** Arrow keys move between the messages. */
function moveInList(event: KeyboardEvent): void {
  const step = { ArrowDown: 'nextElementSibling', ArrowUp: 'previousElementSibling' }[event.key]
  const row = (event.target as HTMLElement).closest('li')
  if (step === undefined || row === null) return
  event.preventDefault()
  row[step as 'nextElementSibling']?.querySelector('a')?.focus()
}

function Older({ load }: { readonly load: () => Promise<void> }) {
  const [isBusy, setBusy] = useState(false)
  const isGone = useRef(false)
  useEffect(() => () => void (isGone.current = true), [])
  const click = async () => {
    setBusy(true)
    await load()
    if (!isGone.current) setBusy(false)
  }
  return (
    <button type="button" disabled={isBusy} onClick={() => void click()}>
      Older messages
    </button>
  )
}

const NoMatch = ({ showAll }: { readonly showAll: () => void }) => (
  <div class="first-steps">
    <p>No messages match.</p>
    <button type="button" onClick={showAll}>
      Show all
    </button>
  </div>
)

const MAIL = { to: 'ann@example.com', from: 'shop@example.org', sub: 'Hello', text: 'Hi.' }

function FirstSteps() {
  const line = [
    `curl -s ${location.origin}/v1/send/email`,
    '-H "X-Service-Admin-Secret: $(cat .rowhouse/admin-secret)"',
    `-d '${JSON.stringify(MAIL)}'`,
  ].join(' \\\n  ')
  return (
    <div class="first-steps">
      <h2>No messages yet</h2>
      <p>Send a first mail to see it here:</p>
      <Code text={line} label="Command that sends a mail" />
      <p>
        Or <a href="/console/messages/providers">send a test</a> from this page.
      </p>
    </div>
  )
}
