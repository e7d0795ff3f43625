import { API, clearSecret, request, savedSecret, saveSecret, Unauthorized } from './api.js'
import { element, stateOf, timeOf } from './dom.js'
import { kindOf, messageDetails, recipientOf, senderOf, titleOf } from './message.js'

const POLL_MS = 2000
const PAGE = 50
const RESENDABLE = ['failed', 'unknown']

const byId = (id) => document.getElementById(id)
const credentials = byId('credentials')
const secret = byId('secret')
const list = byId('list')
const one = byId('one')

/** The loaded messages, newest first. */
let messages = []
/** Cursor of the next older page; null if there is none. */
let next = null
/** The open message with its contents. */
let open
let timer
/** Number of the latest poll. Responses to earlier ones are ignored. */
let latestPoll = 0

// Signing in.

function showSignedIn(yes) {
  credentials.hidden = yes
  byId('about').hidden = yes
  byId('known').hidden = !yes
  byId('messages').hidden = !yes
}

function signOut(why) {
  clearTimeout(timer)
  latestPoll++
  clearSecret()
  messages = []
  next = null
  open = undefined
  close()
  showList()
  showSignedIn(false)
  byId('refusal').textContent = why
  secret.focus()
}

credentials.addEventListener('submit', (event) => {
  event.preventDefault()
  saveSecret(secret.value)
  secret.value = ''
  void start()
})
byId('forget').addEventListener('click', () => signOut(''))

async function start() {
  byId('refusal').textContent = ''
  await poll()
  if (savedSecret() !== null && document.activeElement === document.body) byId('search').focus()
  if (location.hash) void showOne()
}

// The list.

function query(before) {
  const search = new URLSearchParams({ limit: PAGE })
  for (const name of ['state', 'kind']) if (byId(name).value) search.set(name, byId(name).value)
  if (before) search.set('before', before)
  return `?${search}`
}

/** Loads the newest messages, and again while the page is visible. */
async function poll() {
  clearTimeout(timer)
  const current = ++latestPoll
  try {
    const answer = await request(query())
    if (current !== latestPoll) return
    showSignedIn(true)
    byId('trouble').textContent = ''
    merge(answer)
    showList()
    await refreshOne()
  } catch (error) {
    if (current !== latestPoll) return
    if (error instanceof Unauthorized) return signOut(`Sign-in failed: ${error.message}`)
    byId('trouble').textContent = `Update failed: ${error.message}. Trying again.`
    showSignedIn(true)
  }
  if (current === latestPoll && document.visibilityState === 'visible') timer = setTimeout(poll, POLL_MS)
}

document.addEventListener('visibilitychange', () => {
  clearTimeout(timer)
  if (document.visibilityState === 'visible' && !byId('messages').hidden) void poll()
})

/** Puts the newest page before older messages that are loaded. */
function merge(answer) {
  const fresh = new Set(answer.messages.map(({ id }) => id))
  const overlap = messages.findLastIndex(({ id }) => fresh.has(id))
  const older = answer.next !== null && overlap >= 0 ? messages.slice(overlap + 1) : []
  if (older.length === 0) next = answer.next
  messages = [...answer.messages, ...older]
}

byId('older').addEventListener('click', () => void loadOlder())

async function loadOlder() {
  const button = byId('older')
  button.disabled = true
  const wanted = query(next)
  try {
    const answer = await request(wanted)
    // The filters have changed, or the list was reset.
    if (wanted !== query(next)) return
    const loaded = new Set(messages.map(({ id }) => id))
    messages = [...messages, ...answer.messages.filter(({ id }) => !loaded.has(id))]
    next = answer.next
    showList()
  } catch (error) {
    if (error instanceof Unauthorized) signOut(`Sign-in failed: ${error.message}`)
    else byId('trouble').textContent = `Cannot load older messages: ${error.message}.`
  } finally {
    button.disabled = false
  }
}

for (const name of ['state', 'kind']) {
  byId(name).addEventListener('change', () => {
    messages = []
    next = null
    void poll()
  })
}
byId('search').addEventListener('input', showList)
byId('filters').addEventListener('submit', (event) => event.preventDefault())

function showList() {
  const words = byId('search').value.toLowerCase().split(/\s+/).filter(Boolean)
  const found = messages.filter((message) => {
    const text = searchable(message)
    return words.every((word) => text.includes(word))
  })
  const rows = new Map([...list.children].map((row) => [row.dataset.id, row]))
  const focused = document.activeElement?.closest?.('#list li')?.dataset.id
  const wanted = found.map((message) => {
    const json = JSON.stringify(message)
    const row = rows.get(message.id)
    if (row?.json === json) return row
    return Object.assign(rowOf(message), { json })
  })
  if (wanted.length !== list.children.length || wanted.some((row, i) => row !== list.children[i])) {
    list.replaceChildren(...wanted)
    if (focused) wanted.find((row) => row.dataset.id === focused)?.firstChild.focus()
  }
  markOpen()
  const more = next === null ? '' : '+'
  const all = `${messages.length}${more} ${messages.length === 1 && !more ? 'message' : 'messages'}`
  setText(
    'count',
    words.length > 0 ? `${found.length} of ${messages.length} loaded messages` : messages.length > 0 ? all : '',
  )
  byId('older').hidden = next === null
  const filtered = words.length > 0 || byId('state').value !== '' || byId('kind').value !== ''
  showNothing(found.length > 0 ? 'something' : filtered ? 'filtered' : 'empty')
}

/** Changes a text only if it differs, so that screen readers do not repeat it. */
function setText(id, text) {
  if (byId(id).textContent !== text) byId(id).textContent = text
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
  const box = byId('nothing')
  if (box.dataset.why === why) return
  box.dataset.why = why
  box.replaceChildren()
  if (why === 'filtered') {
    const all = element('button', { type: 'button' }, 'Show all')
    all.addEventListener('click', () => {
      byId('filters').reset()
      messages = []
      next = null
      void poll()
      byId('search').focus()
    })
    box.append(element('p', {}, 'No messages match.'), all)
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
      copy.textContent = 'Selected: copy with the keyboard'
    }
  })
  const box = element('pre', { tabIndex: 0 }, line)
  return [element('h2', {}, 'No messages yet'), element('p', {}, 'Send a first mail to see it here:'), box, copy]
}

// One message.

addEventListener('hashchange', () => void showOne())

async function showOne() {
  const id = location.hash.slice(1)
  if (byId('messages').hidden) return
  if (!id) return close()
  try {
    const message = await request(`/${encodeURIComponent(id)}`)
    if (id !== location.hash.slice(1)) return
    open = message
    render(message)
  } catch (error) {
    if (error instanceof Unauthorized) return signOut(`Sign-in failed: ${error.message}`)
    open = undefined
    one.replaceChildren(closeButton(), element('h2', { tabIndex: -1 }, 'This message cannot be shown'))
    one.append(element('p', { className: 'bad' }, error.message))
  }
  one.hidden = false
  one.scrollTop = 0
  markOpen()
  one.querySelector('h2').focus()
}

/** Updates the open message when it has changed in the list. */
async function refreshOne() {
  const listed = open && messages.find(({ id }) => id === open.id)
  if (!listed) return
  const changed = ['state', 'attempts', 'next_at', 'sent_at', 'delivery', 'error'].some(
    (key) => listed[key] !== open[key],
  )
  if (!changed) return
  const { id } = open
  const message = await request(`/${encodeURIComponent(id)}`)
  if (open?.id !== id) return
  open = message
  const inside = one.contains(document.activeElement)
  render(message)
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

function closeButton() {
  const button = element('button', { type: 'button', className: 'quiet' }, 'Close')
  button.addEventListener('click', close)
  return button
}

function render(message) {
  const heading = message.kind === 'sms' ? `SMS to ${recipientOf(message)}` : titleOf(message)
  one.replaceChildren(
    closeButton(),
    element('h2', { tabIndex: -1 }, heading),
    ...messageDetails(message, RESENDABLE.includes(message.state) ? [resend(message)] : []),
  )
}

function resend({ id, state }) {
  const button = element('button', { type: 'button', className: 'primary' }, 'Send again')
  const result = element('span', { role: 'status' })
  button.addEventListener('click', async () => {
    button.disabled = true
    try {
      const { detail } = await request(`/${encodeURIComponent(id)}/retry`, { method: 'POST', body: '{}' })
      result.textContent = detail
      void poll()
    } catch (error) {
      if (error instanceof Unauthorized) return signOut(`Sign-in failed: ${error.message}`)
      result.textContent = error.message
      button.disabled = false
    }
  })
  const warning = state === 'unknown' ? 'It may have been sent. The recipient may get it twice.' : ''
  return element('p', { className: 'row' }, button, element('span', { className: 'soft' }, warning), result)
}

if (savedSecret() === null) secret.focus()
else void start()
