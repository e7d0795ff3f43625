import { API, ask, forget, known, Refused, remember } from './api.js'
import { element, stateOf, timeOf } from './dom.js'
import { kindOf, messageParts, recipientOf, senderOf, titleOf } from './message.js'

const POLL_MS = 2000
const PAGE = 50
const RESENDABLE = ['failed', 'unknown']

const part = (id) => document.getElementById(id)
const credentials = part('credentials')
const secret = part('secret')
const list = part('list')
const one = part('one')

/** Newest first: what the server has said so far. */
let messages = []
/** Where the messages after the last one begin; null: there are none. */
let next = null
/** The whole of the message that is open. */
let open
let timer
/** Answers to older questions are not waited for any more. */
let asked = 0

// Who asks.

function signedIn(yes) {
  credentials.hidden = yes
  part('about').hidden = yes
  part('known').hidden = !yes
  part('messages').hidden = !yes
}

function signOut(why) {
  clearTimeout(timer)
  asked++
  forget()
  messages = []
  next = null
  open = undefined
  close()
  showList()
  signedIn(false)
  part('refusal').textContent = why
  secret.focus()
}

credentials.addEventListener('submit', (event) => {
  event.preventDefault()
  remember(secret.value)
  secret.value = ''
  void start()
})
part('forget').addEventListener('click', () => signOut(''))

async function start() {
  part('refusal').textContent = ''
  await poll()
  if (known() !== null && document.activeElement === document.body) part('search').focus()
  if (location.hash) void showOne()
}

// The list.

function query(before) {
  const search = new URLSearchParams({ limit: PAGE })
  for (const name of ['state', 'kind']) if (part(name).value) search.set(name, part(name).value)
  if (before) search.set('before', before)
  return `?${search}`
}

/** Asks for the newest messages, and again as long as somebody looks. */
async function poll() {
  clearTimeout(timer)
  const mine = ++asked
  try {
    const answer = await ask(query())
    if (mine !== asked) return
    signedIn(true)
    part('trouble').textContent = ''
    merge(answer)
    showList()
    await refreshOne()
  } catch (error) {
    if (mine !== asked) return
    if (error instanceof Refused) return signOut(`The server refused: ${error.message}`)
    part('trouble').textContent = `Update failed: ${error.message}. Trying again.`
    signedIn(true)
  }
  if (mine === asked && document.visibilityState === 'visible') timer = setTimeout(poll, POLL_MS)
}

document.addEventListener('visibilitychange', () => {
  clearTimeout(timer)
  if (document.visibilityState === 'visible' && !part('messages').hidden) void poll()
})

/** Puts the newest page in front of older ones that were loaded before. */
function merge(answer) {
  const fresh = new Set(answer.messages.map(({ id }) => id))
  const meets = messages.findLastIndex(({ id }) => fresh.has(id))
  const older = answer.next !== null && meets >= 0 ? messages.slice(meets + 1) : []
  if (older.length === 0) next = answer.next
  messages = [...answer.messages, ...older]
}

part('older').addEventListener('click', () => void loadOlder())

async function loadOlder() {
  const button = part('older')
  button.disabled = true
  const wanted = query(next)
  try {
    const answer = await ask(wanted)
    // The filters are others now, or the list began anew.
    if (wanted !== query(next)) return
    const loaded = new Set(messages.map(({ id }) => id))
    messages = [...messages, ...answer.messages.filter(({ id }) => !loaded.has(id))]
    next = answer.next
    showList()
  } catch (error) {
    if (error instanceof Refused) signOut(`The server refused: ${error.message}`)
    else part('trouble').textContent = `Cannot load older messages: ${error.message}.`
  } finally {
    button.disabled = false
  }
}

for (const name of ['state', 'kind']) {
  part(name).addEventListener('change', () => {
    messages = []
    next = null
    void poll()
  })
}
part('search').addEventListener('input', showList)
part('filters').addEventListener('submit', (event) => event.preventDefault())

function showList() {
  const words = part('search').value.toLowerCase().split(/\s+/).filter(Boolean)
  const found = messages.filter((message) => {
    const text = searchable(message)
    return words.every((word) => text.includes(word))
  })
  const rows = new Map([...list.children].map((row) => [row.dataset.id, row]))
  const focused = document.activeElement?.closest?.('#list li')?.dataset.id
  const wanted = found.map((message) => {
    const says = JSON.stringify(message)
    const row = rows.get(message.id)
    if (row?.says === says) return row
    return Object.assign(rowOf(message), { says })
  })
  if (wanted.length !== list.children.length || wanted.some((row, i) => row !== list.children[i])) {
    list.replaceChildren(...wanted)
    if (focused) wanted.find((row) => row.dataset.id === focused)?.firstChild.focus()
  }
  markOpen()
  const more = next === null ? '' : '+'
  const all = `${messages.length}${more} ${messages.length === 1 && !more ? 'message' : 'messages'}`
  say('count', words.length > 0 ? `${found.length} of ${all} that are loaded` : messages.length > 0 ? all : '')
  part('older').hidden = next === null
  const filtered = words.length > 0 || part('state').value !== '' || part('kind').value !== ''
  showNothing(found.length > 0 ? 'something' : filtered ? 'filtered' : 'empty')
}

/** Only what is new is read aloud. */
function say(id, text) {
  if (part(id).textContent !== text) part(id).textContent = text
}

const searchable = (message) =>
  [titleOf(message), recipientOf(message), senderOf(message), message.id, message.provider, message.provider_id]
    .concat(message.template, message.state, message.delivery, message.error)
    .filter(Boolean)
    .join('\n')
    .toLowerCase()

function rowOf(message) {
  const row = element('li')
  row.dataset.id = message.id
  const button = element(
    'button',
    { type: 'button' },
    element('span', { className: 'title' }, titleOf(message)),
    timeOf(message.created_at),
    element('span', { className: 'to' }, `${kindOf(message)} to ${recipientOf(message)}`),
    element('span', { className: 'states' }, stateOf(message.delivery ?? message.state)),
  )
  button.addEventListener('click', () => {
    if (location.hash === `#${message.id}`) void showOne()
    else location.hash = message.id
  })
  row.append(button)
  return row
}

list.addEventListener('keydown', (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
  const row = event.target.closest('li')
  if (!step || !row) return
  event.preventDefault()
  const beside = step > 0 ? row.nextElementSibling : row.previousElementSibling
  beside?.firstChild.focus()
})

function showNothing(why) {
  const box = part('nothing')
  if (box.dataset.why === why) return
  box.dataset.why = why
  box.replaceChildren()
  if (why === 'filtered') {
    const all = element('button', { type: 'button' }, 'Show all')
    all.addEventListener('click', () => {
      part('filters').reset()
      messages = []
      next = null
      void poll()
      part('search').focus()
    })
    box.append(element('p', {}, 'No message fits.'), all)
  }
  if (why === 'empty') box.append(...firstSteps())
}

function firstSteps() {
  const mail = { to: 'ann@example.com', from: 'shop@example.org', sub: 'Hello', text: 'Hi.' }
  const line = [
    `curl -s ${location.origin}${API}/email`,
    '-H "X-Service-Admin-Secret: $(cat .rowhouse/admin-secret)"',
    `-d '${JSON.stringify(mail)}'`,
  ].join(' \\\n  ')
  const copy = element('button', { type: 'button' }, 'Copy')
  copy.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(line)
      copy.textContent = 'Copied'
    } catch {
      getSelection().selectAllChildren(box)
      copy.textContent = 'Selected: copy it with the keyboard'
    }
  })
  const box = element('pre', { tabIndex: 0 }, line)
  return [element('h2', {}, 'No messages yet'), element('p', {}, 'Send a first mail, and it appears here:'), box, copy]
}

// One message.

addEventListener('hashchange', () => void showOne())

async function showOne() {
  const id = location.hash.slice(1)
  if (part('messages').hidden) return
  if (!id) return close()
  try {
    const message = await ask(`/${encodeURIComponent(id)}`)
    if (id !== location.hash.slice(1)) return
    open = message
    draw(message)
  } catch (error) {
    if (error instanceof Refused) return signOut(`The server refused: ${error.message}`)
    open = undefined
    one.replaceChildren(closer(), element('h2', { tabIndex: -1 }, 'This message cannot be shown'))
    one.append(element('p', { className: 'bad' }, error.message))
  }
  one.hidden = false
  one.scrollTop = 0
  markOpen()
  one.querySelector('h2').focus()
}

/** Shows the open message again when the list says that something became of it. */
async function refreshOne() {
  const listed = open && messages.find(({ id }) => id === open.id)
  if (!listed) return
  const changed = ['state', 'attempts', 'next_at', 'sent_at', 'delivery', 'error'].some(
    (key) => listed[key] !== open[key],
  )
  if (!changed) return
  const { id } = open
  const message = await ask(`/${encodeURIComponent(id)}`)
  if (open?.id !== id) return
  open = message
  const inside = one.contains(document.activeElement)
  draw(message)
  if (inside) one.querySelector('h2').focus()
}

function close() {
  const id = open?.id
  open = undefined
  one.hidden = true
  one.replaceChildren()
  markOpen()
  if (location.hash) history.replaceState(null, '', location.pathname + location.search)
  list.querySelector(`[data-id="${CSS.escape(id ?? '')}"]`)?.firstChild.focus()
}

addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && !one.hidden) close()
})

function markOpen() {
  for (const row of list.children) {
    row.firstChild.setAttribute('aria-current', String(!one.hidden && row.dataset.id === open?.id))
  }
}

function closer() {
  const button = element('button', { type: 'button', className: 'quiet' }, 'Close')
  button.addEventListener('click', close)
  return button
}

function draw(message) {
  const heading = message.kind === 'sms' ? `SMS to ${recipientOf(message)}` : titleOf(message)
  one.replaceChildren(
    closer(),
    element('h2', { tabIndex: -1 }, heading),
    ...messageParts(message, RESENDABLE.includes(message.state) ? [resend(message)] : []),
  )
}

function resend({ id, state }) {
  const button = element('button', { type: 'button', className: 'primary' }, 'Send again')
  const result = element('span', { role: 'status' })
  button.addEventListener('click', async () => {
    button.disabled = true
    try {
      const { detail } = await ask(`/${encodeURIComponent(id)}/retry`, { method: 'POST', body: '{}' })
      result.textContent = detail
      void poll()
    } catch (error) {
      if (error instanceof Refused) return signOut(`The server refused: ${error.message}`)
      result.textContent = error.message
      button.disabled = false
    }
  })
  const warning = state === 'unknown' ? 'It may have arrived. The recipient may get it twice.' : ''
  return element('p', { className: 'row' }, button, element('span', { className: 'soft' }, warning), result)
}

if (known() === null) secret.focus()
else void start()
