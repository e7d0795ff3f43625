import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { accessibility, openConsole, overflow } from '../../kit/console.js'
import { fakeSender, type FakeSender, sendError } from '../../kit/sender.js'
import { until } from '../../kit/until.js'

const fake = (kind: string) => new URL(`../../kit/fake-${kind}.js`, import.meta.url)

/** The console of a server that catches messages, unless its providers are told otherwise. */
async function openMessages(t: Test) {
  const key = randomUUID()
  const [first, second, sms] = ['first', 'second', 'sms'].map((name) =>
    fakeSender(`${name}-${key}`, { catches: true }),
  ) as [FakeSender, FakeSender, FakeSender]
  const opened = await openConsole(t, {
    notify: true,
    providers: { email: { first: fake('email'), second: fake('email') }, sms: { one: fake('sms') } },
    config: {
      providers: {
        email: { default: 'first', first: { key: `first-${key}` }, second: { key: `second-${key}` } },
        sms: { one: { key: `sms-${key}` } },
      },
      plugins: { notify: { email: { failover: ['second'], perSecond: { second: 14 } }, breaker: { failures: 2 } } },
    },
  })
  const post = (path: string, body: object) =>
    opened.server.fetch(`/v1/send/${path}`, { method: 'POST', body: JSON.stringify(body) })
  const mail = (more: object) =>
    post('email', { to: 'ann@example.com', from: 'shop@example.org', sub: 'Hello', ...more })
  /** Messages that no provider returned, as a server leaves them. */
  const arrive = (columns: string, values: string) =>
    opened.server.must('run_sql', {
      sql: `alter table svc_catalog.svc_outbox disable trigger svc_new_message;
            insert into svc_catalog.svc_outbox (kind, "to", "from", sub, text, ${columns}) ${values};
            alter table svc_catalog.svc_outbox enable trigger svc_new_message`,
    })
  const titles = () => opened.page.locator('.message-list .title').allTextContents()
  const seen = (...expected: readonly string[]) =>
    until(`the list is ${expected.join()}`, async () => (await titles()).join() === expected.join())
  return { ...opened, first, second, sms, post, mail, arrive, titles, seen }
}

t.test('an admin reads, filters and resends messages, writes a template and tests a provider', async (t) => {
  const console = await openMessages(t)
  const { server, page, complaints, elsewhere, open, first, second, post, mail, arrive, titles, seen } = console
  const one = page.locator('article.one')

  await open('messages')
  await page.getByText('No messages yet').waitFor()
  await page.getByText('Nothing leaves this server').waitFor()
  t.match(await page.locator('.first-steps').textContent(), /\/v1\/send\/email/)
  t.same(await accessibility(page), [])

  // Messages appear by themselves, and are found, filtered and opened with the keyboard.
  await mail({ sub: 'First <b>mail</b>', text: 'one', fromName: 'The Shop', attachments: [FILE] })
  await post('sms', { to: 5550142, countryCode: 1, message: 'Your code is 1' })
  await arrive(
    'state, error, attempts',
    `values ('email', 'bo@example.net', 's@example.org', 'Broken', 'x', 'failed', 'smtp: 550 no', 3)`,
  )
  await seen('Broken', 'Your code is 1', 'First <b>mail</b>')
  t.same(await page.locator('.message-list .state').allTextContents(), ['failed', 'caught', 'caught'])
  await page.getByLabel('Kind').selectOption('sms')
  await seen('Your code is 1')
  t.match(page.url(), /\?kind=sms$/)
  await page.getByLabel('Kind').selectOption('')
  await page.getByLabel('State').selectOption('queued')
  await page.getByText('No messages match.').waitFor()
  await page.getByRole('button', { name: 'Show all' }).click()
  await seen('Broken', 'Your code is 1', 'First <b>mail</b>')
  await page.getByLabel('Search the loaded messages').fill('EXAMPLE.net brok')
  await seen('Broken')
  await page.getByText('1 of 3 loaded messages').waitFor()
  await page.getByLabel('Search the loaded messages').fill('')
  await page.getByLabel('Kind').focus()
  await page.keyboard.press('Tab')
  for (const key of ['ArrowDown', 'ArrowDown', 'Enter']) await page.keyboard.press(key)
  await one.getByRole('heading', { name: 'First <b>mail</b>' }).waitFor()
  t.equal(await page.evaluate('document.activeElement.tagName'), 'H2')
  t.match(await one.textContent(), /The Shop <shop@example.org>.*one.*received.*caught after 1 attempt/s)
  await mail({ sub: 'Another', text: 'x' })
  await seen('Another', 'Broken', 'Your code is 1', 'First <b>mail</b>')
  t.ok(await one.getByRole('heading', { name: 'First <b>mail</b>' }).isVisible(), 'what is open stays open')
  const saving = page.waitForEvent('download')
  await one.getByRole('button', { name: FILE.filename }).click()
  t.equal((await saving).suggestedFilename(), 'a _b_.pdf')
  t.same(await accessibility(page), [])
  await page.keyboard.press('Escape')
  t.match(await page.evaluate('document.activeElement.textContent'), /First <b>mail/, 'back to the list')

  // Failed messages and those of unknown outcome are sent again, others are not.
  t.equal(await page.getByRole('button', { name: 'Send again' }).count(), 0)
  await arrive('state', `values ('email', 'cy@example.net', 's@example.org', 'Unknown', 'x', 'unknown')`)
  await page.getByRole('link', { name: /^Unknown/ }).click()
  await page.getByText('The recipient may get it twice.').waitFor()
  await page.getByRole('link', { name: /^Broken/ }).click()
  await one.getByText('smtp: 550 no').waitFor()
  await page.getByRole('button', { name: 'Send again' }).click()
  await one.locator('.state.caught').waitFor()
  t.ok(first.handed.some((sent) => 'subject' in sent && sent.subject === 'Broken'))

  // Older messages are loaded when asked for, and stay.
  await arrive(
    'state, sent_at, created_at',
    `select 'email', 'old@example.com', 's@example.org', 'Old ' || i, null, 'sent', now(), now() - interval '1 day' * i from generate_series(1, 60) i`,
  )
  await open('messages')
  await until('a page is loaded', async () => (await titles()).length === 50)
  await page.getByText('50+ messages').waitFor()
  await page.getByRole('button', { name: 'Older messages' }).click()
  await until('all are loaded', async () => (await titles()).length === 65)
  await page.getByRole('link', { name: /^Old 60/ }).click()
  await one.getByText('The contents were deleted after sending.').waitFor()
  await open('messages/00000000-0000-4000-8000-000000000000')
  await one.getByText('This message cannot be shown').waitFor()
  t.match(complaints.splice(0), [/404/])

  // A template, with its errors at their place, and a test of it.
  await open('messages/templates')
  await page.getByRole('link', { name: 'Write the first one' }).click()
  const preview = page.getByRole('region', { name: 'Preview' })
  await preview.getByRole('heading', { name: 'Welcome, name' }).waitFor()
  await preview.getByLabel('name', { exact: true }).fill('Ann & <i>Bo</i>')
  await preview.getByRole('heading', { name: 'Welcome, Ann & <i>Bo</i>' }).waitFor()
  const html = page.getByRole('textbox', { name: 'HTML' })
  await html.fill('<p>Hello {{ name }}</p>\n{% include "x" %}')
  await page.getByText('tag "include" not found').waitFor()
  t.equal(await page.locator('.cm-lintRange-error').textContent(), '{% include "x" %}')
  complaints.splice(0)
  await html.fill('<p style="color: rgb(1, 2, 3)">Hello {{ name }}, {{ city | default: "here" }}</p>')
  await preview.getByLabel('city', { exact: true }).waitFor()
  await page.getByLabel('Name', { exact: true }).fill('welcome')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('heading', { name: 'welcome', exact: true }).waitFor()
  t.match((await server.fetch('/v1/send/template/welcome')).body, { subject: 'Welcome, {{ name }}', html: /city/ })
  t.same(await accessibility(page), [])
  await preview.getByRole('heading', { name: 'Welcome, name' }).waitFor()
  await page.getByRole('button', { name: 'Send a test' }).click()
  await page.getByLabel('To').fill('me@example.com')
  await page.getByRole('button', { name: 'Send', exact: true }).click()
  await page.getByText('Caught.').waitFor()
  t.match(first.handed.at(-1), {
    to: { address: 'me@example.com' },
    subject: 'Welcome, name',
    html: /Hello name, city/,
  })
  await page.getByRole('link', { name: 'Open the message' }).click()
  await one.getByRole('heading', { name: 'Welcome, name' }).waitFor()

  // Providers, of which one fails, and a test that the user confirms.
  first.extra = { domains: ['example.org'] }
  second.extra = {}
  await open('messages/providers')
  await page.getByText('14 per second').waitFor()
  t.match(await page.locator('.card').allTextContents(), [
    /first.*ready.*default.*example\.org/,
    /second.*failover 1/,
    /one/,
  ])
  t.same(await accessibility(page), [])
  for (const _ of '12') first.answers.push(sendError('retry', 'no connection'))
  for (const _ of '12') await mail({ text: 'x' })
  await page.getByText(/skipped after failures, for \d+ s/).waitFor()
  await page.getByRole('button', { name: 'Send a test mail' }).click()
  await page.getByLabel('To').fill('me@example.com')
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.getByText('This sends a real message through second to me@example.com.').waitFor()
  const handed = second.handed.length
  await page.getByRole('button', { name: 'Send it' }).click()
  await page.getByText('The provider has accepted it.').waitFor()
  t.equal(second.handed.length, handed + 1)
  await page.getByRole('button', { name: 'Close' }).click()

  // Addresses that get no mail.
  await open('messages/suppressed')
  await page.getByText('No address is suppressed.').waitFor()
  await page.getByLabel('Address', { exact: true }).fill('Late@example.com')
  await page.getByLabel('Reason').fill('asked us')
  await page.getByRole('button', { name: 'Suppress' }).click()
  await page.getByText('asked us').waitFor()
  await page.getByLabel('Search addresses').fill('nobody')
  await page.getByText('No suppressed address matches.').waitFor()
  await page.getByLabel('Search addresses').fill('LATE')
  await page.getByRole('button', { name: 'Remove late@example.com' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
  await page.getByText('No suppressed address matches.').waitFor()
  t.same((await server.fetch('/v1/send/suppressed')).body, { suppressed: [] })

  t.same(complaints, [])
  t.same(elsewhere, [])
})

const FILE = { filename: 'a <b>.pdf', contentType: 'application/pdf', content: 'JVBERi0xLjQK' }

const HOSTILE = `<script>top.document.title = 'owned'; parent.postMessage('owned', '*'); new Image().src = 'http://evil.example/script'</script>
<meta http-equiv="refresh" content="0; url=http://evil.example/refresh">
<base href="http://evil.example/">
<link rel="stylesheet" href="http://evil.example/style"><link rel="prefetch" href="http://evil.example/prefetch">
<style>@import url(http://evil.example/import); body { background: url(http://evil.example/background) }
@font-face { font-family: f; src: url(http://evil.example/font) } p { font-family: f }</style>
<p style="background-image: url(http://evil.example/inline)">Nothing happens</p>
<img src="http://evil.example/image" onerror="top.document.title = 'owned'">
<img src="/v1/send/image-of-ours"><img srcset="http://evil.example/srcset 1x"><video src="http://evil.example/video" poster="http://evil.example/poster" autoplay></video>
<iframe src="http://evil.example/frame"></iframe><iframe srcdoc="<script>top.document.title = 'owned'</script>"></iframe>
<object data="http://evil.example/object"></object><embed src="http://evil.example/embed">
<svg onload="top.document.title = 'owned'"><image href="http://evil.example/svg"/></svg>
<details open ontoggle="top.document.title = 'owned'">x</details>
<a href="javascript:top.document.title='owned'">script</a> <a href="http://evil.example/link?a=1&amp;b=2">shown</a>
</iframe></textarea></template><script>top.document.title = 'owned'</script>`

/** What is clicked, from top to bottom, a fifth of the height each. */
const CLICKED = [
  `<a href="javascript:top.document.title='owned'">a</a>`,
  '<a href="http://evil.example/link">b</a>',
  '<a href="http://evil.example/top" target="_top">c</a>',
  '<a href="http://evil.example/blank" target="_blank">d</a>',
  '<form action="http://evil.example/form" method="post"><input name="x" value="y"><button>e</button></form>',
]
  .map((each, i) => `<div style="position: fixed; inset: ${20 * i}% 0 ${80 - 20 * i}% 0">${each}</div>`)
  .join('')
const FILLED = `<style>a, form, button { display: block; width: 100%; height: 100% }</style>${CLICKED}`

t.test(
  'hostile messages do nothing and ask nobody, other roles see none, and all of it fits a telephone',
  async (t) => {
    const { page, complaints, elsewhere, open, mail, post, server, arrive } = await openMessages(t)
    await arrive(
      'state, html, error, detail, provider, delivery_detail, delivery',
      `values ('email', $h$${HOSTILE}$h$, 's@example.org', $h$${HOSTILE}$h$, $h$${HOSTILE}$h$, 'failed', $h$${HOSTILE}$h$, $h$${HOSTILE}$h$, $h$${HOSTILE}$h$, $h$${HOSTILE}$h$, $h$${HOSTILE}$h$, 'bounced')`,
    )
    await mail({ sub: 'Clicked \u202e evil', html: FILLED, to: `${'y'.repeat(60)}@example.com` })
    await server.fetch('/v1/send/template/hostile', {
      method: 'PUT',
      body: JSON.stringify({ subject: '<img src=x>', html: HOSTILE, comment: HOSTILE.slice(0, 1000) }),
    })
    await post('suppressed', { address: 'x@example.com', reason: `"><script>top.document.title='owned'</script>` })
    await page.evaluate(`window.told = []; addEventListener('message', ({ data }) => window.told.push(data))`)
    const popups: string[] = []
    page.context().on('page', (opened) => popups.push(opened.url()))

    await open('messages')
    await page.evaluate(`window.told = []; addEventListener('message', ({ data }) => window.told.push(data))`)
    await page.locator('.message-list a').last().click()
    const inner = page.frameLocator('.untrusted').frameLocator('iframe')
    await inner.getByText('Nothing happens').waitFor()
    const links = page.locator('.one .plain a')
    t.equal(await links.first().getAttribute('href'), 'http://evil.example/link?a=1&b=2')
    t.equal(await links.first().getAttribute('rel'), 'noopener noreferrer')
    t.notOk(
      (await links.evaluateAll((all) => all.map((each) => each.getAttribute('href')))).some((href) =>
        href?.startsWith('javascript'),
      ),
    )
    t.equal(await page.locator('.one').getByText('Send again').count(), 1)
    for (let i = 0; i < 5; i++) {
      // A navigation that was refused leaves an empty frame: each click gets a new one.
      await page.goto(`${server.url}/console/messages`)
      await page.locator('.message-list a').first().click()
      const frame = page.locator('.untrusted')
      await inner.getByText('d', { exact: true }).waitFor()
      await frame.scrollIntoViewIfNeeded()
      const { x, y, width, height } = (await frame.boundingBox())!
      await page.mouse.click(x + width / 2, y + height * (0.1 + 0.2 * i))
      await page.waitForTimeout(300)
      t.equal(await page.evaluate('document.activeElement.tagName'), 'IFRAME', 'it was clicked')
    }
    await open('messages/templates/hostile')
    await inner.getByText('Nothing happens').waitFor()
    await open('messages/suppressed')
    await page.getByText('"><script>').waitFor()
    t.same(await page.evaluate('window.told ?? []'), [])
    t.equal(await page.title(), 'Rowhouse')
    t.same(popups, [])
    t.same(elsewhere, [])
    const refused = /Content Security Policy|sandboxed|allow-(scripts|forms|popups)|Unsafe attempt/
    t.same(
      complaints.filter((each) => !refused.test(each)),
      [],
    )

    await page.setViewportSize({ width: 390, height: 780 })
    for (const path of ['messages', 'messages/templates/hostile', 'messages/providers', 'messages/suppressed']) {
      await page.emulateMedia({ colorScheme: path === 'messages' ? 'dark' : 'light' })
      await open(path)
      await page.locator('.message-list, .sides, .card').first().waitFor()
      t.equal(await overflow(page), 0, path)
      // axe waits forever for the frames in a hostile frame.
      if (!path.endsWith('hostile')) t.same(await accessibility(page), [], path)
    }
    await open('messages')
    await page.locator('.message-list a').last().click()
    await inner.getByText('Nothing happens').waitFor()
    t.equal(await overflow(page), 0, 'one message')
    t.notOk(await page.locator('.outbox .all').isVisible())

    await page.getByRole('button', { name: 'Acting as admin' }).click()
    await page.getByLabel('Role').fill('user')
    await page.getByRole('button', { name: 'Act as this role' }).click()
    await page.getByText('Only an admin sees the messages').waitFor()
    t.equal(await page.locator('.message-list').count(), 0)
    await page.locator('#main').getByRole('button', { name: 'Be admin again' }).click()
    await page.locator('.one').waitFor()
    t.same(elsewhere, [])
    await page.goto('http://evil.example/control').catch(() => {})
    t.same(elsewhere, ['http://evil.example/control'], 'a request would be noticed')
  },
)
