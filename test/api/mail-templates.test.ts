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
