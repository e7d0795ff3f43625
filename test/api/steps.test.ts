import tap, { type Test } from 'tap'
import { notifyServer, type NotifyServer } from '../kit/notify.js'
import { until } from '../kit/until.js'

async function shop(t: Test): Promise<NotifyServer> {
  const server = await notifyServer(t, { queue: { pollMs: 20 } })
  await server.must('run_sql', {
    sql: `
      create table customer (id int primary key, email text not null);
      insert into customer values (1, 'ann@example.com'), (2, 'bob@example.com')`,
  })
  await server.must('track_table', 'customer')
  return server
}

tap.test('a number is put into a message as its text', async (t) => {
  const server = await shop(t)
  await server.must('run_sql', {
    sql: `create table call (id int primary key, number bigint not null, code int not null, price numeric not null, huge numeric not null);
      insert into call values (1, 5550100, 49, 1.10, 90071992547409930)`,
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'call' },
    { type: 'track_table', args: { schema: 'svc_catalog', name: 'svc_outbox' } },
  ])
  const call = { as: 'call', type: 'select', args: { table: 'call', columns: ['*'], where: { id: 1 } } }
  const field = (name: string) => ({ $ref: `call[0].${name}` })
  const sms = (value: (name: string) => object) => ({
    type: 'send_sms',
    args: { to: value('number'), countryCode: value('code'), message: value('price') },
  })
  await server.must('create_query_template', { name: 'sms', template: sms((param) => ({ param })) })
  const args = { number: field('number'), code: field('code'), price: field('huge') }

  t.match(await server.query('bulk', [call, sms(field)]), { status: 200 })
  t.match(await server.query('bulk', [call, { type: 'execute_query_template', args: { name: 'sms', args } }]), {
    status: 200,
  })
  await until('both are sent', async () => server.sms.handed.length === 2)
  t.match(
    server.sms.handed.toSorted((a, b) => JSON.stringify(a).length - JSON.stringify(b).length),
    [
      { to: '5550100', countryCode: '49', message: '1.10' },
      { to: '5550100', countryCode: '49', message: '90071992547409930' },
    ],
  )
})

tap.test('for_each sends a message for each row', async (t) => {
  const server = await shop(t)
  const all = { as: 'all', type: 'select', args: { table: 'customer', columns: ['id', 'email'], order_by: 'id' } }
  const mail = { type: 'send_email', args: { to: { $ref: 'each.email' }, from: 'a@example.com', sub: 'S', text: 'T' } }

  const sent = await server.query('bulk', [all, { ...mail, for_each: 'all' }])
  t.match(sent, { status: 200, body: [{ length: 2 }, { length: 2 }] })
  t.same((await server.messages()).map(({ to }: any) => to).toSorted(), ['ann@example.com', 'bob@example.com'])

  const { args } = mail
  const alike = { type: 'send_email', args: { ...args, to: 'all@example.com' }, for_each: 'all' }
  t.match(await server.query('bulk', [all, alike]), { status: 200, body: [{}, { length: 2 }] })

  const first = { type: 'send_email', args: { ...args, to: { $ref: 'all[0].email' } } }
  t.match(await server.query('bulk', [all, first]), { status: 200, body: [{}, { detail: 'queued' }] })

  t.match(await server.query('bulk', [all, { type: 'send_email', args: { ...args, to: { $ref: 'all' } } }]), {
    status: 400,
    body: { path: '$.args[1].args.to', error: /a string/ },
  })
  t.equal((await server.messages()).length, 5)
})
