import tap from 'tap'
import type { Mail } from '../../core/index.js'
import { MAIL, notifyServer, SMS } from '../kit/notify.js'

const invalid = (message: RegExp | string) => ({ status: 400, body: { code: 'invalid_payload', message } })

tap.test('fields that a header or an envelope could misread', async (t) => {
  const server = await notifyServer(t)
  const addresses = [
    'a@x.example\r\nBcc: evil@example.com',
    'a@x.example, b@x.example',
    'a@x.example; b@x.example',
    '"a@x.example\u0000@y.example"',
    '"quoted local"@x.example',
    '=?UTF-8?Q?=0A?=@x.example',
    'Name <a@x.example> <b@x.example>',
    'Name <a@x.example>, b@x.example',
    'group: a@x.example;',
    'a@[127.0.0.1]',
    'a@127.0.0.1',
    'a@x..example',
    '.a@x.example',
    'a@-x.example',
    'a@x.example\u2028b',
    'ä@x.example',
    'a(comment)@x.example',
    '<a@x.example',
    'a b@x.example',
    'Na<me <a@x.example>',
    `${'a'.repeat(65)}@x.example`,
    `a@${'x'.repeat(64)}.example`,
    '',
    ' ',
    '@x.example',
    'a@',
  ]
  for (const address of addresses) {
    for (const key of ['to', 'from', 'replyTo', 'cc', 'bcc']) {
      t.match(
        await server.send('email', { ...MAIL, [key]: address }),
        invalid(/expecting one address|U\+0000/),
        `${key}: ${encodeURIComponent(address)}`,
      )
    }
  }
  for (const value of [1, {}, { path: '/etc/passwd' }, true, ['a']]) {
    for (const key of ['from', 'sub', 'text', 'html', 'fromName']) {
      t.match(
        await server.send('email', { ...MAIL, [key]: value }),
        invalid(/^Error in \$\.\w+: expecting a string/),
        key,
      )
    }
  }
  for (const key of ['sub', 'fromName']) {
    for (const bad of ['a\r\nBcc: evil@example.com', 'a\nb', 'a\u0000', 'a\u0085b', 'a\u2028b']) {
      t.match(await server.send('email', { ...MAIL, [key]: bad }), invalid(/line breaks|U\+0000/), key)
    }
  }
  for (const word of ['=?utf-8?q?a=0D=0ABcc:_e@x?=', 'Hi =?UTF-8*en?B?aGk=?= you', '=??Q?unfinished']) {
    for (const key of ['sub', 'fromName'])
      t.match(await server.send('email', { ...MAIL, [key]: word }), invalid(/encoded words .* are not allowed/), key)
    for (const key of ['to', 'from', 'replyTo', 'cc', 'bcc']) {
      for (const name of [word, `"${word}"`])
        t.match(await server.send('email', { ...MAIL, [key]: `${name} <a@x.example>` }), invalid(/one address/), key)
    }
  }
  t.match(await server.send('email', { ...MAIL, text: 'a\u0000' }), invalid(/U\+0000/))
  t.match(await server.send('email', { ...MAIL, headers: {} }), invalid(/unexpected key "headers"/))
  for (const to of ['12-34', -1, 1.5, '', 12, 1e15, '+49123']) {
    t.match(await server.send('sms', { ...SMS, to }), invalid(/number/), `to ${to}`)
  }
  for (const countryCode of [0, 1234, '01', 'x']) {
    t.match(await server.send('sms', { ...SMS, countryCode }), invalid(/code|number/), `countryCode ${countryCode}`)
  }
  t.match(await server.send('sms', { ...SMS, message: ' ' }), invalid(/empty/))
  t.match(await server.send('sms', { ...SMS, message: 'x'.repeat(1601) }), invalid(/1600/))
  t.same(server.email.handed, [])
  t.same(await server.messages(), [], 'nothing was stored')

  const fine: [string, object][] = [
    ['Ann "the" Bee <a@x.example>', { address: 'a@x.example' }],
    ['"Bee, Ann" <a@x.example>', { address: 'a@x.example', name: 'Bee, Ann' }],
    ['"\\"Ann\\"" <a@x.example>', { address: 'a@x.example', name: '"Ann"' }],
    ['Änn <a+b@x.example>', { address: 'a+b@x.example', name: 'Änn' }],
    ['<a@x.example>', { address: 'a@x.example' }],
    ['a@bücher.example', { address: 'a@xn--bcher-kva.example' }],
    ["o'hara@localhost", { address: "o'hara@localhost" }],
  ]
  for (const [to, expected] of fine.slice(1)) {
    t.equal((await server.send('email', { ...MAIL, to })).status, 200, encodeURIComponent(to))
    t.same((server.email.handed.at(-1) as Mail).to, expected)
  }
  t.match(await server.send('email', { ...MAIL, to: fine[0]?.[0] }), invalid(/expecting one address/))
  for (const sub of ['What is 2+2=?', 'a=?b?c?d', '?=', 'Wie geht’s? =?'])
    t.equal((await server.send('email', { ...MAIL, sub })).status, 200, sub)
})
