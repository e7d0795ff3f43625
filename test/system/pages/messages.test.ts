import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { openTab, type Tab } from '../../kit/browser.js'
import { arrive, asked, caught } from '../../kit/catcher.js'
import { ADMIN_SECRET, testServer } from '../../kit/server.js'

/** The page in a browser in which every other host is this machine, which notes what it is asked. */
async function messagesPage(t: Test): Promise<Tab & { readonly url: string; readonly elsewhere: readonly string[] }> {
  caught.length = 0
  asked.length = 0
  const elsewhere: string[] = []
  const others = createServer((request, answer) => {
    // Chromium itself asks its makers for news.
    const { host = '' } = request.headers
    if (host.endsWith('.example')) elsewhere.push(host + request.url)
    answer.end('<title>elsewhere</title>')
  }).listen(0, '127.0.0.1')
  await once(others, 'listening')
  t.teardown(() => others.close())
  const server = await testServer(t, { builtins: { notify: new URL('../../kit/catcher.js', import.meta.url) } })
  const tab = await openTab(t, { elsewhere: (others.address() as AddressInfo).port })
  await tab.look({})
  const url = `${server.url}/v1/send`
  await tab.open(url)
  return { ...tab, url, elsewhere }
}

/** Types the admin secret, as somebody does. */
async function signIn(tab: Tab, secret = ADMIN_SECRET): Promise<void> {
  await tab.until(`document.activeElement === document.getElementById('secret')`)
  await tab.type(secret)
  await tab.press('Enter')
}

const texts = (selector: string) => `[...document.querySelectorAll('${selector}')].map((one) => one.textContent)`
const TITLES = texts('#list .title')
const choose = (name: string, value: string) =>
  `{ const select = document.getElementById('${name}'); select.value = '${value}'; select.dispatchEvent(new Event('change')) }`
/** Until the message of that title is open. */
const isOpen = (title: string) => `document.querySelector('#one h2')?.textContent === ${JSON.stringify(title)}`
const middle = (element: string) =>
  `(() => { const { x, y, width, height } = ${element}.getBoundingClientRect(); return [x + width / 2, y + height / 2] })()`

t.test('a wrong secret shows nothing; the right one is kept for the tab only', async (t) => {
  const tab = await messagesPage(t)
  arrive({ id: 'm1', sub: 'Confidential' })
  t.same(tab.complaints, [], 'nothing is asked before somebody says who it is')

  await signIn(tab, 'a wrong secret')
  await tab.until(`document.getElementById('refusal').textContent.includes('wrong')`)
  t.equal(await tab.evaluate('sessionStorage.length'), 0)
  t.notOk(await tab.evaluate(`document.body.textContent.includes('Confidential')`))

  await signIn(tab)
  await tab.until(`${TITLES}.length === 1`)
  t.equal(await tab.evaluate(`document.getElementById('refusal').textContent`), '')
  t.same(await tab.evaluate('[localStorage.length, document.cookie, sessionStorage.length]'), [0, '', 1])
  await tab.open(`${tab.url}?again`)
  await tab.until(`${TITLES}.length === 1`)

  await tab.evaluate(`document.getElementById('forget').click()`)
  t.equal(await tab.evaluate('sessionStorage.length'), 0)
  t.same(await tab.evaluate(TITLES), [])
  t.ok(await tab.evaluate(`document.getElementById('messages').hidden`))
})

t.test('it stops asking when the secret is no longer the right one', async (t) => {
  const tab = await messagesPage(t)
  await signIn(tab)
  await tab.until(`document.getElementById('nothing').textContent.includes('/v1/send/email')`)
  await tab.evaluate(
    `{ const { fetch } = window; window.asked = 0; window.fetch = (...a) => (window.asked++, fetch(...a)) }`,
  )
  await tab.until('window.asked > 1')
  await tab.evaluate(`sessionStorage.setItem('rowhouse-admin-secret', 'another one')`)
  await tab.until(`document.getElementById('messages').hidden`)
  const asked = await tab.evaluate('window.asked')
  await tab.evaluate('new Promise((resolve) => setTimeout(resolve, 3000))')
  t.equal(await tab.evaluate('window.asked'), asked)
})

t.test('messages appear by themselves, and can be found, filtered and opened with the keyboard', async (t) => {
  const tab = await messagesPage(t)
  await signIn(tab)
  await tab.until(`document.getElementById('nothing').textContent.includes('curl')`)
  t.notOk(await tab.evaluate(`document.body.innerHTML.includes(${JSON.stringify(ADMIN_SECRET)})`))

  arrive({ id: 'm1', sub: 'First <b>mail</b>', text: 'one', from: 'shop@example.org', from_name: 'The Shop' })
  arrive({ id: 'm2', kind: 'sms', to: '5550142', country_code: '1', sub: 'Your code', message: 'Your code is 1' })
  arrive({ id: 'm3', kind: 'email-template', template: 'welcome', content: [{ name: 'who', content: 'Ann' }] })
  arrive({ id: 'm4', sub: 'Broken', state: 'failed', error: 'smtp: 550 no', to: 'bo@example.net', attempts: 3 })
  await tab.until(`${TITLES}.length === 4`)
  t.same(await tab.evaluate(TITLES), ['Broken', 'Template welcome', 'Your code', 'First <b>mail</b>'])
  t.same(await tab.evaluate(texts('#list .state')), ['failed', 'sent', 'sent', 'sent'])
  t.same((await tab.evaluate(texts('#list .to')))[2], 'SMS to +1 5550142')

  await tab.evaluate(choose('kind', 'sms'))
  await tab.until(`${TITLES}.join() === 'Your code'`)
  await tab.evaluate(choose('kind', ''))
  await tab.evaluate(choose('state', 'failed'))
  await tab.until(`${TITLES}.join() === 'Broken'`)
  await tab.evaluate(choose('state', 'queued'))
  await tab.until(`document.getElementById('nothing').textContent.includes('No messages match')`)
  await tab.evaluate(`document.querySelector('#nothing button').click()`)
  await tab.until(`${TITLES}.length === 4`)

  await tab.evaluate(`document.getElementById('search').focus()`)
  await tab.type('EXAMPLE.net brok')
  await tab.until(`${TITLES}.join() === 'Broken'`)
  t.equal(await tab.evaluate(`document.getElementById('count').textContent`), '1 of 4 loaded messages')
  await tab.evaluate(`document.getElementById('filters').reset()`)
  await tab.until(`${TITLES}.length === 4`)

  await tab.evaluate(`document.getElementById('kind').focus()`)
  await tab.press('Tab')
  for (const _ of '123') await tab.press('ArrowDown')
  await tab.press('Enter')
  await tab.until(isOpen('First <b>mail</b>'))
  t.equal(await tab.evaluate('document.activeElement.tagName'), 'H2')
  t.match(await tab.evaluate(`document.getElementById('one').textContent`), /The Shop <shop@example.org>/)
  arrive({ id: 'm5', sub: 'Another' })
  await tab.until(`${TITLES}.length === 5`)
  t.ok(await tab.evaluate(isOpen('First <b>mail</b>')), 'what is open stays open')
  await tab.press('Escape')
  t.equal(await tab.evaluate(`document.activeElement.closest('li').dataset.id`), 'm1', 'back to where one was')
  t.same(tab.complaints, [])
})

t.test('older messages are loaded when asked for, and stay', async (t) => {
  const tab = await messagesPage(t)
  for (let i = 0; i < 120; i++) arrive({ id: `m${i}`, sub: `Mail ${i}` })
  await signIn(tab)
  await tab.until(`${TITLES}.length === 50`)
  t.equal(await tab.evaluate(`document.getElementById('count').textContent`), '50+ messages')
  await tab.evaluate(`document.getElementById('older').click()`)
  await tab.until(`${TITLES}.length === 100`)
  arrive({ id: 'new', sub: 'New' })
  await tab.until(`${TITLES}.length === 101`)
  await tab.evaluate(`document.getElementById('older').click()`)
  await tab.until(`${TITLES}.length === 121`)
  const all = await tab.evaluate(TITLES)
  t.same(all, ['New', ...Array.from({ length: 120 }, (_, i) => `Mail ${119 - i}`)])
  t.ok(await tab.evaluate(`document.getElementById('older').hidden`))
})

t.test('a message is shown with all that is known of it', async (t) => {
  const tab = await messagesPage(t)
  arrive({ id: 'gone', sub: 'Gone' })
  arrive({
    id: 'full',
    sub: 'Full',
    text: 'See https://example.com/in-text.',
    html: '<p>See <a href="https://example.com/in-html?a=1&amp;b=2">this</a>, <a href="javascript:alert(1)">not this</a></p>',
    cc: ['cy@example.com'],
    bcc: [{ address: 'di@example.com', name: 'Di' }],
    reply_to: 'help@example.org',
    attachments: [{ filename: 'a <b>.pdf', content_type: 'application/pdf', size: 2048 }],
    provider: 'postmark',
    provider_id: 'p-1',
    detail: 'OK',
    delivery: 'bounced',
    delivery_detail: 'no such mailbox',
    delivery_at: '2026-01-02T03:04:05Z',
    sent_at: '2026-01-02T03:04:04Z',
  })
  await signIn(tab)
  await tab.until(`${TITLES}.length === 2`)
  await tab.evaluate(`location.hash = 'full'`)
  await tab.until(isOpen('Full'))
  const shown: string = await tab.evaluate(`document.getElementById('one').innerText`)
  const parts = ['cy@example.com', 'Di <di@example.com>', 'help@example.org', 'a <b>.pdf', '2.0 KiB', 'postmark', 'p-1']
  for (const one of [...parts, 'bounced: no such mailbox', 'after 1 attempt', 'including images'])
    t.ok(shown.includes(one), one)
  t.same(
    await tab.evaluate(
      `[...document.querySelectorAll('#one ul a')].map((a) => [a.href, a.textContent, a.target, a.rel])`,
    ),
    ['https://example.com/in-html?a=1&b=2', 'https://example.com/in-text'].map((href) => [
      href,
      href,
      '_blank',
      'noopener noreferrer',
    ]),
  )
  await tab.evaluate(`location.hash = 'gone'`)
  await tab.until(isOpen('Gone'))
  t.match(await tab.evaluate(`document.getElementById('one').textContent`), /The contents were deleted after sending/)
  await tab.evaluate(`location.hash = 'never'`)
  await tab.until(isOpen('This message cannot be shown'))
  t.match(await tab.evaluate(`document.getElementById('one').textContent`), /there is no such message/)
})

t.test('failed messages and those nobody knows of are sent again, others are not', async (t) => {
  const tab = await messagesPage(t)
  arrive({ id: 'sent', sub: 'Sent' })
  arrive({ id: 'failed', sub: 'Failed', state: 'failed', error: 'refused', text: 'x' })
  arrive({ id: 'unknown', sub: 'Unknown', state: 'unknown', text: 'x' })
  await signIn(tab)
  await tab.until(`${TITLES}.length === 3`)
  for (const [title, has] of [
    ['Sent', false],
    ['Unknown', true],
    ['Failed', true],
  ] as const) {
    await tab.evaluate(`location.hash = '${title.toLowerCase()}'`)
    await tab.until(isOpen(title))
    t.equal(await tab.evaluate(`document.querySelector('#one .primary') !== null`), has, title)
    t.equal(await tab.evaluate(`document.getElementById('one').textContent.includes('twice')`), title === 'Unknown')
  }
  const [x, y] = await tab.evaluate(middle(`document.querySelector('#one .primary')`))
  await tab.click(x, y)
  await tab.until(`document.querySelector('#one .state').textContent === 'queued'`)
  t.equal(caught.find(({ id }) => id === 'failed')!.state, 'queued')
  await tab.until(`${texts('#list .state')}.join() === 'unknown,queued,sent'`)
  t.equal(await tab.evaluate(`document.querySelector('#one .primary')`), null)
  t.same(tab.complaints, [])
})

const HOSTILE = `<script>top.document.title = 'owned'; parent.postMessage('owned', '*'); new Image().src = 'http://evil.example/script'</script>
<meta http-equiv="refresh" content="0; url=http://evil.example/refresh">
<base href="http://evil.example/">
<link rel="stylesheet" href="http://evil.example/style"><link rel="prefetch" href="http://evil.example/prefetch">
<style>@import url(http://evil.example/import); body { background: url(http://evil.example/background) }
@font-face { font-family: f; src: url(http://evil.example/font) } p { font-family: f }</style>
<p style="background-image: url(http://evil.example/inline)">Nothing happens</p>
<img src="http://evil.example/image" onerror="parent.postMessage('owned', '*')">
<img src="/v1/send/image-of-ours"><img srcset="http://evil.example/srcset 1x"><video src="http://evil.example/video" poster="http://evil.example/poster" autoplay></video>
<iframe src="http://evil.example/frame"></iframe><iframe srcdoc="<script>top.document.title = 'owned'</script>"></iframe>
<object data="http://evil.example/object"></object><embed src="http://evil.example/embed">
<svg onload="parent.postMessage('owned', '*')"><image href="http://evil.example/svg"/></svg>
<details open ontoggle="parent.postMessage('owned', '*')">x</details>
</iframe></textarea></template><script>top.document.title = 'owned'</script>`

/** From top to bottom, a fifth of the height each. */
const CLICKED = `<div style="position: fixed; inset: 0 0 80% 0"><a href="javascript:parent.postMessage('owned', '*')" style="display: block; height: 100%">a</a></div>
<div style="position: fixed; inset: 20% 0 60% 0"><a href="http://evil.example/link" style="display: block; height: 100%">b</a></div>
<div style="position: fixed; inset: 40% 0 40% 0"><a href="http://evil.example/top" target="_top" style="display: block; height: 100%">c</a></div>
<div style="position: fixed; inset: 60% 0 20% 0"><a href="http://evil.example/blank" target="_blank" style="display: block; height: 100%">d</a></div>
<div style="position: fixed; inset: 80% 0 0 0"><form action="http://evil.example/form" method="post"><input name="x" value="y"><button style="width: 100%; height: 100px">e</button></form></div>`

t.test('the html of a hostile mail does nothing and asks nobody', async (t) => {
  const tab = await messagesPage(t)
  arrive({ id: 'hostile', sub: 'Hostile', html: HOSTILE, text: HOSTILE, error: HOSTILE, detail: HOSTILE, to: HOSTILE })
  arrive({ id: 'clicked', sub: 'Clicked', html: CLICKED })
  await signIn(tab)
  await tab.until(`${TITLES}.length === 2`)
  await tab.evaluate(`window.told = []; addEventListener('message', ({ data }) => window.told.push(data))`)
  const show = async (id: string) => {
    await tab.evaluate(
      `document.querySelector('iframe')?.remove(); document.querySelector('[data-id=${id}] button').click()`,
    )
    await tab.until(`document.querySelector('iframe') !== null`)
    await tab.evaluate(`document.querySelector('iframe').scrollIntoView({ block: 'center' })`)
    await tab.evaluate('new Promise((resolve) => setTimeout(resolve, 1000))')
  }
  await show('hostile')
  for (let i = 0; i < 5; i++) {
    // A navigation that was refused leaves an empty frame: each gets a new one.
    await show('clicked')
    const [x, top, height] = await tab.evaluate(
      `(() => { const { x, y, width, height } = document.querySelector('iframe').getBoundingClientRect(); return [x + width / 2, y, height] })()`,
    )
    await tab.click(x, top + height * (0.1 + 0.2 * i))
    await tab.evaluate('new Promise((resolve) => setTimeout(resolve, 500))')
    t.equal(await tab.evaluate('document.activeElement?.tagName'), 'IFRAME', 'it was clicked')
  }

  t.same(await tab.evaluate('window.told'), [])
  t.equal(await tab.evaluate('document.title'), 'Messages - Rowhouse')
  t.equal(await tab.evaluate('location.href'), `${tab.url}#clicked`)
  t.same(tab.elsewhere, [])
  t.same(new Set(asked), new Set(['hostile', 'clicked']), 'nor this server')

  await tab.open('http://evil.example/control')
  t.same(
    tab.elsewhere.filter((url) => !url.endsWith('/favicon.ico')),
    ['evil.example/control'],
    'others can be asked',
  )
})

t.test('the page fits a telephone', async (t) => {
  const tab = await messagesPage(t)
  await tab.look({ width: 360, height: 700 })
  arrive({ id: 'long', sub: 'x'.repeat(200), to: `${'y'.repeat(60)}@example.com`, text: 'z'.repeat(500), html: '<p>x' })
  await signIn(tab)
  await tab.until(`${TITLES}.length === 1`)
  t.equal(await tab.evaluate('document.documentElement.scrollWidth > innerWidth'), false)
  await tab.evaluate(`document.querySelector('#list button').click()`)
  await tab.until(`!document.getElementById('one').hidden`)
  t.equal(await tab.evaluate('document.documentElement.scrollWidth > innerWidth'), false)
  t.equal(await tab.evaluate(`getComputedStyle(document.getElementById('all')).display`), 'none')
})
