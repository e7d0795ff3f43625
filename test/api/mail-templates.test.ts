import tap from 'tap'
import fc, { cases } from '../kit/property.js'
import { type Answered, type As, testServer, type TestServer } from '../kit/server.js'

interface Templates extends TestServer {
  put(name: string, body: unknown, as?: As): Promise<Answered>
  /** Tries a stored template. */
  fill(name: string, values: Readonly<Record<string, string>>): Promise<Answered>
  /** Tries one that is not stored. */
  tryOut(draft: object, values?: Readonly<Record<string, string>>): Promise<Answered>
}

async function templateServer(t: { teardown(fn: () => Promise<void>): unknown }): Promise<Templates> {
  const server = await testServer(t, { notify: true })
  const send = (method: string, path: string, body: unknown, as?: As) =>
    server.fetch(`/v1/send/template/${path}`, { method, body: JSON.stringify(body) }, as)
  return {
    ...server,
    put: (name, body, as) => send('PUT', name, body, as),
    fill: (name, values) => send('POST', `${name}/preview`, { templateContent: contentOf(values) }),
    tryOut: (draft, values = {}) => send('POST', 'preview', { ...draft, templateContent: contentOf(values) }),
  }
}

const contentOf = (values: Readonly<Record<string, string>>) =>
  Object.entries(values).map(([name, content]) => ({ name, content }))
const refused = (message: RegExp) => ({ status: 400, body: { code: 'invalid_payload', message } })
const of = (subject: string, html: string | null = null, text: string | null = 'x') => ({ subject, text, html })

tap.test('a template is stored, listed, filled in, changed and deleted', async (t) => {
  const server = await templateServer(t)
  const welcome = {
    subject: 'Welcome, {{ name }}',
    text: 'Hello {{ name }}!',
    html: '<p>Hello {{ name }}!</p>',
    comment: 'After signing up.',
  }

  const stored = await server.put('welcome', welcome)
  t.match(stored, { status: 200, body: { name: 'welcome', ...welcome } })
  t.match(stored.body.created_at, /^\d{4}-\d\d-\d\dT/)
  t.same(Object.keys(stored.body), ['name', 'subject', 'text', 'html', 'comment', 'created_at', 'updated_at'])
  t.same((await server.fetch('/v1/send/template/welcome')).body, stored.body)
  const { text: _, html: _html, ...listed } = stored.body
  t.same((await server.fetch('/v1/send/template')).body, { templates: [listed] })

  t.same((await server.fill('welcome', { name: 'Ann & Bo', unused: 'x' })).body, {
    subject: 'Welcome, Ann & Bo',
    text: 'Hello Ann & Bo!',
    html: '<p>Hello Ann &amp; Bo!</p>',
  })

  const changed = await server.put('welcome', { subject: 'Hi {{ name }}', html: '<b>{{ name }}</b>' })
  t.match(changed.body, { subject: 'Hi {{ name }}', text: null, comment: null, created_at: stored.body.created_at })
  t.ok(changed.body.updated_at > stored.body.updated_at)
  t.same(
    (await server.fill('welcome', { name: 'Ann' })).body,
    { subject: 'Hi Ann', text: null, html: '<b>Ann</b>' },
    'the change is seen at once',
  )
  await server.must('run_sql', { sql: `update svc_catalog.svc_mail_template set subject = 'By SQL'` })
  t.equal((await server.fill('welcome', { name: 'Ann' })).body.subject, 'By SQL')

  const gone = { status: 404, body: { code: 'not_found', message: 'there is no template "welcome"' } }
  t.match(await server.fetch('/v1/send/template/welcome', { method: 'DELETE' }), {
    status: 200,
    body: { name: 'welcome', status: 'deleted' },
  })
  t.match(await server.fetch('/v1/send/template/welcome', { method: 'DELETE' }), gone)
  t.match(await server.fetch('/v1/send/template/welcome'), gone)
  t.match(await server.fill('welcome', { name: 'Ann' }), gone)
})

tap.test('nobody but the admin gets to templates', async (t) => {
  const server = await templateServer(t)
  const user: As = { role: 'user', variables: { 'x-service-user-id': '1' } }
  const calls: [string, string][] = [
    ['GET', '/v1/send/template'],
    ['GET', '/v1/send/template/a'],
    ['PUT', '/v1/send/template/a'],
    ['DELETE', '/v1/send/template/a'],
    ['POST', '/v1/send/template/preview'],
    ['POST', '/v1/send/template/a/preview'],
  ]
  await server.put('a', of('a'))
  for (const [method, path] of calls) {
    const init = method === 'PUT' || method === 'POST' ? { method, body: JSON.stringify(of('b')) } : { method }
    t.match(await server.fetch(path, init, user), { status: 401, body: { code: 'unauthorized' } }, `${method} ${path}`)
    t.match(await server.bare(path, init), { status: 401 }, `${method} ${path} without credentials`)
  }
  t.equal((await server.fetch('/v1/send/template/a')).body.subject, 'a')
})

tap.test('values are never markup, and never a template', async (t) => {
  const server = await templateServer(t)
  await server.put('echo', { subject: '{{ v }}', text: '{{ v }}', html: '<p title="{{ v }}">{{ v }}</p>' })
  const values = [
    '<script>alert(1)</script>',
    `" onmouseover="alert(1)" x='`,
    '{{ secret }}',
    '{% raw %}{% assign v = 1 %}{% endraw %}',
    '{%- include "/etc/passwd" -%}',
    '${v} <%= v %> #{v} {{{ v }}}',
    '&lt;b&gt; &amp;amp;',
  ]

  for (const v of values) {
    const { body } = await server.fill('echo', { v })
    const escaped = v
      .replaceAll('&', '&amp;')
      .replaceAll('<', '&lt;')
      .replaceAll('>', '&gt;')
      .replaceAll('"', '&quot;')
      .replaceAll("'", '&#39;')
    t.same(body, { subject: v, text: v, html: `<p title="${escaped}">${escaped}</p>` })
  }
})

tap.test('whatever a value is: as it is in texts, escaped in html, and one line in subjects', async (t) => {
  const server = await templateServer(t)
  const draft = { text: '[{{ v }}]', html: `<i class='{{ v }}'>{{ v }}</i>` }
  const unit = fc.oneof(
    fc.constantFrom(...`<>&"'{}%|\r\n\u0085\u2028`.split('')),
    fc.string({ unit: 'binary', maxLength: 1 }),
  )
  const value = fc.string({ unit }).filter((text) => !text.includes('\0'))

  await fc.assert(
    fc.asyncProperty(value, async (v) => {
      const { body, status } = await server.tryOut({ subject: 's', ...draft }, { v })
      t.equal(status, 200)
      t.equal(body.text, `[${v}]`)
      const [, attribute, inside] = /^<i class='([^'<>"]*)'>([^'<>"]*)<\/i>$/.exec(body.html)!
      t.equal(unescaped(attribute!), v)
      t.equal(unescaped(inside!), v)
      const line = await server.tryOut(of('[{{ v }}]'), { v })
      if (/[\p{Cc}\u2028\u2029]/u.test(v)) t.match(line, refused(/^subject, line 1, column 2: .*line break/))
      else t.equal(line.body.subject, `[${v}]`)
    }),
    { numRuns: cases(200) },
  )
})

const CHARACTERS: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" }
const unescaped = (html: string) => html.replaceAll(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => CHARACTERS[name]!)

tap.test('html is escaped whatever tag or filter wrote it', async (t) => {
  const server = await templateServer(t)
  const values = { v: '<b>&', list: '<i>,<u>' }
  const htmlOf = async (html: string) => (await server.tryOut(of('s', html), values)).body.html

  t.equal(await htmlOf('{{ v | upcase }}'), '&lt;B&gt;&amp;')
  t.equal(await htmlOf('{% assign w = v | append: v %}{{ w }}'), '&lt;b&gt;&amp;&lt;b&gt;&amp;')
  t.equal(
    await htmlOf('{% assign l = list | split: "," %}{% for i in l %}{{ i }} {% endfor %}'),
    '&lt;i&gt; &lt;u&gt; ',
  )
  t.equal(await htmlOf('{{ list | split: "," }}'), '&lt;i&gt;&lt;u&gt;')
  t.equal(await htmlOf('{{ v | replace: "b", "c" }}'), '&lt;c&gt;&amp;')
  t.equal(await htmlOf('{{ missing | default: v }}'), '&lt;b&gt;&amp;')
  t.equal(await htmlOf('{{ "<hr>" }}'), '&lt;hr&gt;')
  t.equal(await htmlOf('<a href="/?q={{ v | url_encode }}">'), '<a href="/?q=%3Cb%3E%26">')
  const lines = { v: 'one <b>\r\ntwo\nthree' }
  const html = '{{ v | newline_to_br }}'
  t.equal((await server.tryOut(of('s', html), lines)).body.html, 'one &lt;b&gt;<br>\ntwo<br>\nthree')
  const after = '{{ v | newline_to_br | append: "<i>" }}'
  t.notMatch((await server.tryOut(of('s', after), lines)).body.html, /<[ib]/, 'no filter behind it makes it markup')
  for (const filter of ['raw', 'escape', 'unescape', 'strip_html', 'where', 'sort', 'json', 'no_such']) {
    t.match(await server.tryOut(of('s', `{{ v | ${filter} }}`), values), refused(/^html, line 1.*undefined filter/))
  }
  t.match(await server.tryOut(of('s', null, html), lines), refused(/undefined filter: newline_to_br/))
})

tap.test('a variable without a value is named; "if" and "default" may ask for it', async (t) => {
  const server = await templateServer(t)
  await server.put('order', { subject: 'Order', text: 'a\nb {{ order_id }}' })

  t.match(
    await server.fill('order', { orderId: '7' }),
    refused(/^text of template "order", line 2, column 6: undefined variable: order_id$/),
  )
  t.match(await server.fill('order', { order_id: '' }), { status: 200, body: { text: 'a\nb ' } })
  t.match(await server.tryOut(of('{{ a }}')), refused(/^subject, line 1, column 4: undefined variable: a$/))
  t.match(await server.tryOut(of('s', '{% for x in a %}{% endfor %}')), refused(/undefined variable: a/))
  const optional = '{% if a %}{{ a }}{% else %}nobody{% endif %} {{ b | default: "nothing" }}'
  t.equal((await server.tryOut(of('s', optional))).body.html, 'nobody nothing')
  t.equal((await server.tryOut(of('s', optional), { a: 'Ann', b: 'it' })).body.html, 'Ann it')
})

tap.test('nothing but its values is there for a template', async (t) => {
  const server = await templateServer(t)
  const names = [
    'constructor',
    '__proto__',
    'toString',
    'process',
    'globalThis',
    'this',
    'a.constructor',
    'a.__proto__',
  ]

  for (const name of names) {
    t.match(await server.tryOut(of('s', `{{ ${name} }}`), { a: 'x' }), refused(/undefined variable/), name)
    t.match(await server.tryOut(of('s', `{{ a["${name}"] }}`), { a: 'x' }), refused(/undefined variable/), name)
  }
  for (const name of ['constructor', '__proto__', 'toString']) {
    t.equal((await server.tryOut(of('s', `{{ ${name} }}`), { [name]: 'mine' })).body.html, 'mine')
  }
  const tags = ['include "a"', 'render "a"', 'layout "a"', 'block a', 'capture a', 'increment a', 'cycle "a"', 'echo a']
  for (const tag of [...tags, 'tablerow a in b', 'liquid', '# a', 'no_such']) {
    const [word] = tag.split(' ')
    t.match(
      await server.put('a', of('s', `<p>\n  {% ${tag} %}`)),
      refused(new RegExp(`^html, line 2, column 3: tag "${word}" not found$`)),
      tag,
    )
  }
})

tap.test('what is not Liquid is refused with its line, and not stored', async (t) => {
  const server = await templateServer(t)
  const wrong: [object, RegExp][] = [
    [of('s', 'a\n\n{{ b'), /^html, line 3, column 1: output "{{ b" not closed$/],
    [of('s', '{% if a %}'), /^html, line 1, column 1: tag {% if a %} not closed$/],
    [of('s', null, 'a\n{% endif %}'), /^text, line 2, column 1: tag "endif" not found$/],
    [of('{{ a | }}{{'), /^subject, line 1/],
    [of('{{ }}'), /^subject, line 1/],
  ]
  for (const [draft, message] of wrong) {
    t.match(await server.put('a', draft), refused(message))
    t.match(await server.tryOut(draft), refused(message))
  }
  t.equal((await server.fetch('/v1/send/template/a')).status, 404)
})

tap.test('hostile templates end with a clear error', async (t) => {
  const server = await templateServer(t)
  const values = { a: 'x'.repeat(100_000) }
  const hostile: [string, string, RegExp][] = [
    ['a long loop', '{% for i in (1..1000000000) %}{% endfor %}', /memory alloc limit exceeded/],
    ['loops in a loop', '{% for i in (1..9999) %}{% for j in (1..9999) %}{% endfor %}{% endfor %}', /limit exceeded/],
    ['a value that grows', `{% assign b = "ab" %}${'{% assign b = b | append: b %}'.repeat(40)}`, /memory alloc limit/],
    ['a wide date', '{{ "now" | date: "%1000000000d" }}', /memory alloc limit exceeded/],
    ['much output', '{% for i in (1..9999) %}{{ a }}{% endfor %}', /longer than 1048576 characters/],
    ['much text', `{% for i in (1..9999) %}${'y'.repeat(100_000)}{% endfor %}`, /longer than 1048576 characters/],
    ['a long condition', `{% if ${'a contains "xy" or '.repeat(6_000)}a %}{% endif %}`, /limit exceeded/],
    ['a long expression', `{{ ${'a contains "xy" or '.repeat(6_000)}a }}`, /limit exceeded/],
    ['depth', '{% if a %}'.repeat(1_990), /nested too deep|not closed/],
    ['brackets', `{{ a${'[a'.repeat(60_000)} }}`, /nested too deep/],
    ['many tags', '{{a}}'.repeat(2_001), /more than 2000 tags and outputs/],
    ['length', 'x'.repeat(131_073), /longer than 131072 characters/],
    [
      'loops over characters',
      '{% assign q = a | split: "" %}{% for i in q %}{{ q | join: "" }}{% endfor %}',
      /limit|longer/,
    ],
  ]
  for (const [what, source, message] of hostile) {
    t.match(await server.tryOut(of('s', source), values), refused(message), what)
    t.match(await server.tryOut(of('s', null, source), values), refused(message), `${what} in a text`)
  }
  t.match(await server.tryOut(of('{% for i in (1..999) %}ab{% endfor %}')), refused(/^subject.*longer than 998 char/))
  const fits = `{% for i in (1..3) %}${'y'.repeat(100_000)}{% endfor %}`
  t.equal((await server.tryOut(of('s', fits))).body.html.length, 300_000)
  t.equal((await server.tryOut(of('s', '{{a}}'.repeat(2_000)), { a: 'y' })).body.html.length, 2_000)
})

tap.test('bodies and names are strict', async (t) => {
  const server = await templateServer(t)
  const wrong: [unknown, RegExp][] = [
    [[], /^Error in \$: expecting an object/],
    [1.5, /^Error in \$: expecting an object/],
    [{ text: 'x' }, /key 'subject' was not present/],
    [{ subject: '', text: 'x' }, /key 'subject' was not present/],
    [{ subject: ['s'], text: 'x' }, /\$\.subject: expecting a string/],
    [{ subject: 's' }, /one of the keys 'text' and 'html'/],
    [{ subject: 's', text: 1 }, /\$\.text: expecting a string/],
    [{ subject: 's', html: { path: '/etc/passwd' } }, /\$\.html: expecting a string/],
    [{ subject: 's', text: 'x', comment: false }, /\$\.comment: expecting a string/],
    [{ subject: 's', text: 'x', comment: 'c'.repeat(1_001) }, /\$\.comment: longer than 1000/],
    [{ subject: 's', text: 'x', body: 'y' }, /\$\.body: unexpected key "body"$/],
    [{ subject: 's', text: 'x', templateContent: [] }, /unexpected key "templateContent"$/],
    [{ subject: 's\r\nBcc: a@example.com', text: 'x' }, /line breaks and control characters are not allowed/],
    [{ subject: 's'.repeat(999), text: 'x' }, /\$\.subject: longer than 998/],
  ]
  for (const [body, message] of wrong) t.match(await server.put('a', body), refused(message))
  t.match(await server.fetch('/v1/send/template/a', { method: 'PUT', body: '{' }), { status: 400 })
  const encoded = { subject: '=?utf-8?{{ a }}', text: 'x', templateContent: [{ name: 'a', content: 'q?=0D=0A?=' }] }
  t.match(
    await server.fetch('/v1/send/template/preview', { method: 'POST', body: JSON.stringify(encoded) }),
    refused(/a subject must not have encoded words/),
  )

  const draft = of('s')
  const contents: [unknown, RegExp][] = [
    ['x', /templateContent: expecting a list/],
    [[{ name: 'a' }], /templateContent\[0\]: the key 'content' was not present/],
    [[{ name: 'a', content: 1 }], /templateContent\[0\]\.content: expecting a string/],
    [[{ name: '', content: 'x' }], /templateContent\[0\]: the key 'name' was not present/],
    [[{ name: 'a', content: 'x', html: 'y' }], /unexpected key "html"$/],
    [
      [
        { name: 'a', content: 'x' },
        { name: 'a', content: 'y' },
      ],
      /templateContent\[1\]: duplicate name "a"$/,
    ],
    [Array.from({ length: 1_001 }, (_, i) => ({ name: `n${i}`, content: '' })), /templateContent: more than 1000/],
  ]
  await server.put('a', draft)
  for (const [templateContent, message] of contents) {
    for (const [path, body] of [
      ['preview', { ...draft, templateContent }],
      ['a/preview', { templateContent }],
    ] as const) {
      const init = { method: 'POST', body: JSON.stringify(body) }
      t.match(await server.fetch(`/v1/send/template/${path}`, init), refused(message))
    }
  }
  for (const name of ['a b', 'ä', '%00', 'a%2Fb', 'a'.repeat(65), "a'--"]) {
    t.match(await server.put(name, draft), refused(/the name of a template has/), name)
    t.match(await server.fetch(`/v1/send/template/${name}`), refused(/the name of a template has/), name)
  }
  t.equal((await server.put('A_b.c-9', draft)).status, 200)
  t.equal((await server.put('preview', draft)).status, 200, 'a name like any other')
  t.equal((await server.fetch('/v1/send/template/preview')).body.subject, 's')
  const sql = `insert into svc_catalog.svc_mail_template (name, subject) values ('x', 's')`
  t.match(await server.query('run_sql', { sql }), { status: 400 }, 'nor does SQL store one that says nothing')
})
