import t from 'tap'
import { isPostgresUrl } from '../../core/db/host-urls.js'
import { formatPosition, parsePosition, readPosition } from '../../core/db/wal-position.js'

t.test('a WAL position is read as PostgreSQL writes it', async (t) => {
  t.equal(parsePosition('0/16B3748'), 0x16b3748n)
  t.equal(parsePosition('1/0'), 2n ** 32n)
  t.equal(formatPosition(parsePosition('a/ff')!), 'A/FF')
  for (const text of ['', '0', '0/', '0/G', '0/123456789', ' 0/1', '-1/1'])
    t.equal(parsePosition(text), undefined, text)
})

t.test('a position behind the header of an unwritten page is the start of that page', async (t) => {
  const segment = 16n * 1024n * 1024n
  const read = (text: string) => formatPosition(readPosition(text, segment))

  t.equal(read('0/3000028'), '0/3000000', 'after a switch of the segment')
  t.equal(read('0/3002018'), '0/3002000', 'at the end of a page')
  t.equal(read('0/3002028'), '0/3002028', 'after a record that continues on a page')
  t.equal(read('0/3002100'), '0/3002100')
})

t.test('a connection URL may name several hosts', async (t) => {
  for (const url of [
    'postgresql://a:b@h:5432/d',
    'postgres://h,i:5433,[::1]:5434/d?target_session_attrs=read-write',
    'postgresql://a@h/d?target_session_attrs=prefer-standby',
    'postgresql:///d?host=/run/postgresql',
    '/run/postgresql',
    'socket:/run/postgresql?db=d',
  ])
    t.ok(isPostgresUrl(url), url)
  for (const url of ['', 'h', 'mysql://h/d', 'postgresql://h,i:x/d', 'postgresql://h/d?target_session_attrs=best'])
    t.notOk(isPostgresUrl(url), url)
})
