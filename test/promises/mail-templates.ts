import type { Test } from 'tap'
import { notifyServer, type NotifyServer } from '../kit/notify.js'
import { invalid } from '../kit/notify-steps.js'
import { area, type Case, type Expected, is, like, type Step } from '../kit/promises.js'
import type { As } from '../kit/server.js'

/** What mail templates stored in Rowhouse promise. */
const PROMISES = {
  'template.put': 'a template is stored, and returned as it is stored',
  'template.list': 'templates are listed by name, without their contents',
  'template.get': 'a template is returned by its name',
  'template.preview': 'a stored template is rendered with values, without sending anything',
  'template.replace': 'a template is replaced as a whole, and the change is seen immediately',
  'template.by-sql': 'a change by SQL is seen immediately, too',
  'template.delete': 'a deleted template is gone',
  'template.not-found': 'a template that does not exist is not found',
  'template.name': 'a name has 1 to 64 letters, digits, _, . and -',
  'template.body': 'a template has a subject, and a text or HTML',
  'template.no-contents': 'SQL does not store a template without contents either',
  'template.admin': 'only admin reads, changes and previews templates',
  'draft.preview': 'a template that is not stored is rendered, and not stored',
  'values.form': 'templateContent is a list of names and texts, each name once, 1,000 at most',
  'values.missing': 'a variable without a value is refused, with its place and name',
  'values.optional': 'if and default may ask for a variable that is missing',
  'values.names': 'a template sees its values and nothing else',
  'escape.html': 'a value is never markup in HTML, whatever it is',
  'escape.text': 'a value is unchanged in subject and text, and never a template',
  'escape.filters': 'HTML is escaped whatever filter or tag writes it',
  'escape.line-breaks': 'newline_to_br makes line breaks in HTML, and nothing after it makes markup',
  'subject.line': 'a rendered subject has no line break, control character or encoded word',
  'liquid.tags': 'templates have these tags',
  'liquid.filters': 'templates have these filters',
  'liquid.no-tags': 'a template has no other tags, and none that reads files or other templates',
  'liquid.no-filters': 'a template has no other filters',
  'liquid.syntax': 'a template that is not Liquid is refused with its line, and not stored',
  'limit.source': 'a part has at most 131,072 characters and 2,000 tags and outputs',
  'limit.subject': 'a subject has at most 998 characters, before and after rendering',
  'limit.output': 'a rendered part has at most 1,048,576 characters',
  'limit.memory': 'loops, filters and ranges make at most 2,000,000 characters and members',
  'limit.time': 'a part that takes too long is refused',
} as const

const PAGES = {
  'plugins/notify/README.md': {
    notify: {
      '`/v1/send/template...`': ['template.put', 'template.admin'],
    },
    Errors: {
      '404': 'template.not-found',
    },
  },
  'plugins/notify/templates.md': {
    'Mail templates stored in Rowhouse': {
      '`GET /v1/send/template`': 'template.list',
      '`GET /v1/send/template/:name`': ['template.get', 'template.not-found'],
      '`PUT /v1/send/template/:name`': ['template.put', 'template.replace', 'template.body'],
      '`DELETE /v1/send/template/:name`': ['template.delete', 'template.not-found'],
      '`POST /v1/send/template/:name/preview`': 'template.preview',
      '`POST /v1/send/template/preview`': 'draft.preview',
    },
  },
} as const

type Values = Readonly<Record<string, string>>
const contentOf = (values: Values) => Object.entries(values).map(([name, content]) => ({ name, content }))
const step = (method: string, path: string, body: unknown, expected: Expected): Step => ({
  path: `/v1/send/template${path}`,
  method,
  expected,
  ...(body === undefined ? {} : { body: JSON.stringify(body) }),
})
const get = (path: string, expected: Expected) => step('GET', path, undefined, expected)
const put = (name: string, body: unknown, expected: Expected = { status: 200 }) =>
  step('PUT', `/${name}`, body, expected)
/** Renders a stored template. */
const fill = (name: string, values: Values, expected: Expected) =>
  step('POST', `/${name}/preview`, { templateContent: contentOf(values) }, expected)
/** Renders one that is not stored. */
const draft = (parts: object, values: Values, expected: Expected) =>
  step('POST', '/preview', { subject: 's', text: 'x', ...parts, templateContent: contentOf(values) }, expected)
const html = (source: string, values: Values, rendered: string) =>
  draft({ html: source }, values, like({ html: rendered }))
const text = (source: string, values: Values, rendered: string) =>
  draft({ text: source }, values, like({ text: rendered }))
/** @param message after the name of the part */
const refusedHtml = (source: string, message: RegExp, values: Values = {}) =>
  draft({ html: source }, values, invalid(message))
const GONE = (name: string): Expected => ({
  status: 404,
  body: { code: 'not_found', message: `there is no template "${name}"` },
})

const WELCOME = {
  subject: 'Welcome, {{ name }}',
  text: 'Hello {{ name }}!',
  html: '<p>Hello {{ name }}!</p>',
  comment: 'After signing up.',
}
const NAMES = ['constructor', '__proto__', 'toString', 'process', 'globalThis', 'this', 'a.constructor', 'a.__proto__']

const CASES: Record<keyof typeof PROMISES, Case<NotifyServer>> = {
  'template.put': async (t, server) => {
    const init = { method: 'PUT', body: JSON.stringify(WELCOME) }
    const { status, body } = await server.fetch('/v1/send/template/welcome', init)
    const { created_at: created, updated_at: updated, ...others } = body
    t.same([status, others], [200, { name: 'welcome', ...WELCOME }])
    t.match([created, updated], [/^\d{4}-\d\d-\d\dT/, /^\d{4}-\d\d-\d\dT/])
    t.same((await server.fetch('/v1/send/template/welcome')).body, body)
  },
  'template.list': async (t, server) => {
    await server.fetch('/v1/send/template/bye', { method: 'PUT', body: '{"subject": "Bye", "html": "x"}' })
    const { templates } = (await server.fetch('/v1/send/template')).body
    t.match(templates, [
      { name: 'bye', subject: 'Bye', comment: null },
      { name: 'welcome', subject: WELCOME.subject, comment: WELCOME.comment },
    ])
    for (const each of templates) t.same(Object.keys(each), ['name', 'subject', 'comment', 'created_at', 'updated_at'])
  },
  'template.get': [get('/bye', like({ name: 'bye', subject: 'Bye', html: 'x', text: null }))],
  'template.preview': async (t, server) => {
    const templateContent = contentOf({ name: 'Ann & Bo', unused: 'x' })
    const init = { method: 'POST', body: JSON.stringify({ templateContent }) }
    const { status, body } = await server.fetch('/v1/send/template/welcome/preview', init)
    t.same(
      [status, body],
      [200, { subject: 'Welcome, Ann & Bo', text: 'Hello Ann & Bo!', html: '<p>Hello Ann &amp; Bo!</p>' }],
    )
    t.same(server.email.handed, [])
    t.same(await server.messages(), [])
  },
  'template.replace': async (t, server) => {
    const { body: before } = await server.fetch('/v1/send/template/welcome')
    const init = { method: 'PUT', body: JSON.stringify({ subject: 'Hi {{ name }}', html: '<b>{{ name }}</b>' }) }
    const { body } = await server.fetch('/v1/send/template/welcome', init)
    t.match(body, { subject: 'Hi {{ name }}', text: null, comment: null, created_at: before.created_at })
    t.ok(body.updated_at > before.updated_at)
    const preview = { method: 'POST', body: JSON.stringify({ templateContent: contentOf({ name: 'Ann' }) }) }
    t.same((await server.fetch('/v1/send/template/welcome/preview', preview)).body, {
      subject: 'Hi Ann',
      text: null,
      html: '<b>Ann</b>',
    })
  },
  'template.by-sql': async (t, server) => {
    await server.sql(`update svc_catalog.svc_mail_template set subject = 'By SQL'`)
    const { body } = await server.fetch('/v1/send/template/bye/preview', { method: 'POST', body: '{}' })
    t.same(body, { subject: 'By SQL', text: null, html: 'x' })
  },
  'template.delete': [
    step('DELETE', '/welcome', undefined, is({ name: 'welcome', status: 'deleted' })),
    get('/welcome', GONE('welcome')),
    get('', like({ templates: [{ name: 'bye' }] })),
  ],
  'template.not-found': [step('DELETE', '/welcome', undefined, GONE('welcome')), fill('welcome', {}, GONE('welcome'))],
  'template.name': [
    ...['a b', 'ä', '%00', 'a%2Fb', 'a'.repeat(65), "a'--"].flatMap((name) => [
      put(name, WELCOME, invalid('the name of a template has 1 to 64 letters')),
      get(`/${name}`, invalid('the name of a template has 1 to 64 letters')),
    ]),
    ...['A_b.c-9', 'a'.repeat(64), 'preview'].flatMap((name) => [
      put(name, WELCOME),
      step('DELETE', `/${name}`, undefined, { status: 200 }),
    ]),
  ],
  'template.body': [
    put('a', [], invalid('Error in $: expecting an object')),
    put('a', { text: 'x' }, invalid("the key 'subject' was not present", '$')),
    put('a', { subject: '', text: 'x' }, invalid("the key 'subject' was not present", '$')),
    put('a', { subject: ['s'], text: 'x' }, invalid('expecting a string', '$.subject')),
    put('a', { subject: 's' }, invalid("one of the keys 'text' and 'html'", '$')),
    put('a', { subject: 's', text: 1 }, invalid('expecting a string', '$.text')),
    put('a', { subject: 's', html: { path: '/etc/passwd' } }, invalid('expecting a string', '$.html')),
    put('a', { subject: 's', text: 'x', comment: false }, invalid('expecting a string', '$.comment')),
    put('a', { subject: 's', text: 'x', comment: 'c'.repeat(1001) }, invalid('longer than 1000', '$.comment')),
    put('a', { subject: 's', text: 'x', body: 'y' }, invalid('unexpected key "body"', '$.body')),
    put('a', { subject: 's', text: 'x', templateContent: [] }, invalid('unexpected key "templateContent"')),
    put('a', { subject: 's\r\nBcc: a@example.com', text: 'x' }, invalid('line breaks', '$.subject')),
    get('/a', GONE('a')),
    put('a', { subject: 's', text: 'x', comment: 'c'.repeat(1000) }),
  ],
  'template.no-contents': async (t, server) => {
    const sql = `insert into svc_catalog.svc_mail_template (name, subject) values ('x', 's')`
    t.equal((await server.query('run_sql', { sql })).status, 400)
  },
  'template.admin': async (t, server) => {
    const user: As = { role: 'user', variables: { 'x-service-user-id': '1' } }
    const calls = [
      ['GET', ''],
      ['GET', '/a'],
      ['PUT', '/a'],
      ['DELETE', '/a'],
      ['POST', '/preview'],
      ['POST', '/a/preview'],
    ] as const
    for (const [method, path] of calls) {
      const hasBody = method === 'PUT' || method === 'POST'
      const init = hasBody ? { method, body: '{"subject": "b", "text": "b"}' } : { method }
      for (const answer of [
        await server.fetch(`/v1/send/template${path}`, init, user),
        await server.bare(`/v1/send/template${path}`, init),
      ])
        t.same(
          [answer.status, answer.body],
          [401, { code: 'unauthorized', message: 'Only role: admin is allowed' }],
          `${method} ${path}`,
        )
    }
    t.equal((await server.fetch('/v1/send/template/a')).body.subject, 's')
  },
  'draft.preview': [
    draft(
      { subject: 'Hi {{ a }}', text: null, html: '<i>{{ a }}' },
      { a: '<b>' },
      {
        status: 200,
        body: { subject: 'Hi <b>', text: null, html: '<i>&lt;b&gt;' },
      },
    ),
    step('POST', '/preview', { subject: 's' }, invalid("one of the keys 'text' and 'html'", '$')),
    get('', like({ templates: [{ name: 'a' }, { name: 'bye' }] })),
  ],
  'values.form': [
    ['x', 'expecting a list', ''],
    [[{ name: 'a' }], "the key 'content' was not present", '[0]'],
    [[{ name: 'a', content: 1 }], 'expecting a string', '[0].content'],
    [[{ name: '', content: 'x' }], "the key 'name' was not present", '[0]'],
    [[{ name: 'a', content: 'x', html: 'y' }], 'unexpected key "html"', '[0].html'],
    [[...contentOf({ a: 'x' }), ...contentOf({ a: 'y' })], 'duplicate name "a"', '[1]'],
    [Array.from({ length: 1001 }, (_, i) => ({ name: `n${i}`, content: '' })), 'more than 1000 values', ''],
    [Array.from({ length: 1000 }, (_, i) => ({ name: `n${i}`, content: '' })), undefined, ''],
  ].flatMap(([templateContent, message, at]) => {
    const expected = message === undefined ? like({}) : invalid(message as string, `$.templateContent${at as string}`)
    return [
      step('POST', '/preview', { subject: 's', text: 'x', templateContent }, expected),
      step('POST', '/a/preview', { templateContent }, expected),
    ]
  }),
  'values.missing': [
    put('order', { subject: 'Order', text: 'a\nb {{ order_id }}' }),
    fill(
      'order',
      { orderId: '7' },
      {
        status: 400,
        body: {
          code: 'invalid_payload',
          message: 'text of template "order", line 2, column 6: undefined variable: order_id',
        },
      },
    ),
    fill('order', { order_id: '' }, is({ subject: 'Order', text: 'a\nb ', html: null })),
    draft({ subject: '{{ a }}' }, {}, invalid(/^subject, line 1, column 4: undefined variable: a$/)),
    refusedHtml('{% for x in a %}{% endfor %}', /^html, line 1.*undefined variable: a$/),
  ],
  'values.optional': ['', 'Ann'].map((a) =>
    html(
      '{% if a %}{{ a }}{% else %}nobody{% endif %} {{ b | default: "nothing" }}',
      a === '' ? {} : { a, b: 'it' },
      a === '' ? 'nobody nothing' : 'Ann it',
    ),
  ),
  'values.names': [
    ...NAMES.map((name) => refusedHtml(`{{ ${name} }}`, /undefined variable/, { a: 'x' })),
    ...NAMES.map((name) => refusedHtml(`{{ a["${name}"] }}`, /undefined variable/, { a: 'x' })),
    html('{{ constructor }}', { constructor: 'mine' }, 'mine'),
  ],
  'escape.html': [
    html(
      `<p title="{{ v }}">{{ v }}</p>`,
      { v: `<script>&"'` },
      `<p title="&lt;script&gt;&amp;&quot;&#39;">&lt;script&gt;&amp;&quot;&#39;</p>`,
    ),
    html('{{ v }}', { v: '&lt;b&gt; &amp;amp;' }, '&amp;lt;b&amp;gt; &amp;amp;amp;'),
  ],
  'escape.text': [
    `<b>&"'`,
    '{{ secret }}',
    '{% raw %}{% assign v = 1 %}{% endraw %}',
    '{%- include "/etc/passwd" -%}',
    '${v} <%= v %> #{v} {{{ v }}}',
  ].map((v) => draft({ subject: '{{ v }}', text: '[{{ v }}]' }, { v }, like({ subject: v, text: `[${v}]` }))),
  'escape.filters': [
    ['{{ v | upcase }}', '&lt;B&gt;&amp;'],
    ['{% assign w = v | append: v %}{{ w }}', '&lt;b&gt;&amp;&lt;b&gt;&amp;'],
    ['{% assign l = list | split: "," %}{% for i in l %}{{ i }} {% endfor %}', '&lt;i&gt; &lt;u&gt; '],
    ['{{ list | split: "," }}', '&lt;i&gt;&lt;u&gt;'],
    ['{{ v | replace: "b", "c" }}', '&lt;c&gt;&amp;'],
    ['{{ missing | default: v }}', '&lt;b&gt;&amp;'],
    ['{{ "<hr>" }}', '&lt;hr&gt;'],
    ['<a href="/?q={{ v | url_encode }}">', '<a href="/?q=%3Cb%3E%26">'],
  ].map(([source = '', rendered = '']) => html(source, { v: '<b>&', list: '<i>,<u>' }, rendered)),
  'escape.line-breaks': [
    html('{{ v | newline_to_br }}', { v: 'one <b>\r\ntwo\nthree' }, 'one &lt;b&gt;<br>\ntwo<br>\nthree'),
    html('{{ v | newline_to_br | append: "<i>" }}', { v: 'a\n<b>' }, 'a&lt;br&gt;\n&amp;lt;b&amp;gt;&lt;i&gt;'),
    draft({ text: '{{ v | newline_to_br }}' }, { v: 'a' }, invalid('undefined filter: newline_to_br')),
  ],
  'subject.line': [
    ...['a\r\nBcc: b@example.com', 'a\nb', 'a\u0085b', 'a\u2028b'].map((a) =>
      draft(
        { subject: '[{{ a }}]' },
        { a },
        invalid(/^subject, line 1, column 2: a subject must not have line breaks/),
      ),
    ),
    draft({ subject: '=?utf-8?{{ a }}' }, { a: 'q?=0D=0A?=' }, invalid('a subject must not have encoded words')),
  ],
  'liquid.tags': [
    text(
      '{% comment %}no{% endcomment %}{% assign a = 2 %}{% for i in (1..3) %}{% if i == a %}{{ i }}{% endif %}{% endfor %}' +
        '{% case a %}{% when 2 %}two{% endcase %}{% unless a == 2 %}no{% endunless %}{% raw %}{{ x }}{% endraw %}',
      {},
      '2two{{ x }}',
    ),
  ],
  'liquid.filters': [
    ['{{ "b" | append: "c" | prepend: "a" | capitalize }}', 'Abc'],
    ['{{ "2026-11-27T23:30:00Z" | date: "%A %d %B %Y %H:%M" }}', 'Friday 27 November 2026 23:30'],
    ['{{ 7 | plus: 3 | minus: 1 | times: 2 | divided_by: 4 | modulo: 3 }}', '1'],
    ['{{ "A,B" | downcase | split: "," | reverse | join: "-" }}', 'b-a'],
    ['{{ "a,b,c" | split: "," | first }}{{ "a,b,c" | split: "," | last }}{{ "abc" | size }}', 'ac3'],
    ['{{ " a " | strip | upcase }}{{ "abab" | remove: "b" | replace: "a", "c" }}{{ 1.26 | round: 1 }}', 'Acc1.3'],
    ['{{ "abcdef" | truncate: 5 }}{{ "a b" | url_encode }}{{ x | default: "d" }}', 'ab...a+bd'],
  ].map(([source = '', rendered = '']) => text(source, {}, rendered)),
  'liquid.no-tags': [
    'include "a"',
    'render "a"',
    'layout "a"',
    'block a',
    'capture a',
    'increment a',
    'cycle "a"',
    'echo a',
    'tablerow a in b',
    'liquid',
    '# a',
    'no_such',
  ].map((tag) =>
    put(
      'b',
      { subject: 's', html: `<p>\n  {% ${tag} %}` },
      invalid(`html, line 2, column 3: tag "${tag.split(' ')[0]}" not found`),
    ),
  ),
  'liquid.no-filters': ['raw', 'escape', 'unescape', 'strip_html', 'where', 'sort', 'json', 'no_such'].map((filter) =>
    refusedHtml(`{{ v | ${filter} }}`, /^html, line 1.*undefined filter/, { v: 'x' }),
  ),
  'liquid.syntax': [
    ...(
      [
        [{ html: 'a\n\n{{ b' }, /^html, line 3, column 1: output "\{\{ b" not closed$/],
        [{ html: '{% if a %}' }, /^html, line 1, column 1: tag {% if a %} not closed$/],
        [{ text: 'a\n{% endif %}' }, /^text, line 2, column 1: tag "endif" not found$/],
        [{ subject: '{{ a | }}{{' }, /^subject, line 1/],
        [{ subject: '{{ }}' }, /^subject, line 1/],
      ] as const
    ).flatMap(([parts, message]) => [
      put('b', { subject: 's', text: 'x', ...parts }, invalid(message)),
      draft(parts, {}, invalid(message)),
    ]),
    get('/b', GONE('b')),
  ],
  'limit.source': [
    refusedHtml('x'.repeat(131_073), /^html: longer than 131072 characters$/),
    draft({ text: 'x'.repeat(131_073) }, {}, invalid(/^text: longer than 131072 characters$/)),
    draft({ text: 'x'.repeat(131_072) }, {}, { status: 200 }),
    refusedHtml('{{a}}'.repeat(2001), /^html: more than 2000 tags and outputs$/),
    html('{{a}}'.repeat(2000), { a: 'y' }, 'y'.repeat(2000)),
  ],
  'limit.subject': [
    put('b', { subject: 's'.repeat(999), text: 'x' }, invalid('longer than 998', '$.subject')),
    draft({ subject: 's'.repeat(998) }, {}, { status: 200 }),
    draft({ subject: '{{ a }}' }, { a: 's'.repeat(998) }, { status: 200 }),
    draft({ subject: '{{ a }}' }, { a: 's'.repeat(999) }, invalid(/^subject.*longer than 998 char/)),
  ],
  'limit.output': [
    draft({ html: '{{a}}{{a}}' }, { a: 'x'.repeat(524_288) }, { status: 200 }),
    refusedHtml('{{a}}{{a}}y', /^html.*longer than 1048576 characters/, { a: 'x'.repeat(524_288) }),
    draft({ text: '{{a}}{{a}}y' }, { a: 'x'.repeat(524_288) }, invalid(/^text.*longer than 1048576 characters/)),
  ],
  'limit.memory': [
    refusedHtml('{% for i in (1..1000000000) %}{% endfor %}', /^html, line 1, column 1: memory alloc limit exceeded$/),
    draft({ html: '{% for i in (1..10000) %}{% endfor %}' }, {}, { status: 200 }),
    refusedHtml(`{% assign b = "ab" %}${'{% assign b = b | append: b %}'.repeat(40)}`, /memory alloc limit/),
    refusedHtml('{{ "now" | date: "%1000000000d" }}', /memory alloc limit/),
  ],
  'limit.time': [
    refusedHtml('{% for i in (1..9999) %}{% for j in (1..9999) %}{% endfor %}{% endfor %}', /limit exceeded/),
  ],
}

/** Its promises, with a case for each. */
export const mailTemplates = area('mail-templates', {
  promises: PROMISES,
  pages: PAGES,
  cases: CASES,
  start: (t: Test) => notifyServer(t),
})
