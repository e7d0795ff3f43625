import t from 'tap'
import { createReader, type Summary } from '../../plugins/bench/answers.js'
import { percentile } from '../../plugins/bench/load.js'

const ANSWERS = [
  'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello',
  'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 400 Bad Request\r\nContent-Length: 18\r\nConnection: close\r\n\r\n{"code": "broken"}',
  'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\n\r\n{\r\n0d\r\n"errors": []}\r\n0\r\nTrailer: t\r\n\r\n',
  'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
  'HTTP/1.1 204 No Content\r\n\r\n',
  'HTTP/1.0 200 OK\r\nContent-Length: 20\r\n\r\n01234567890123456789',
]

t.test('answers are told apart wherever they are cut', async (t) => {
  const all = Buffer.from(ANSWERS.join(''))
  for (const size of [1, 2, 3, 7, 50, all.length]) {
    const heard: Summary[] = []
    const read = createReader((answer) => heard.push(answer))
    for (let at = 0; at < all.length; at += size) read(all.subarray(at, at + size))

    t.same(
      heard.map(({ status, begins, last }) => [status, begins.toString(), last]),
      [
        [200, 'hello', false],
        [400, '{"code": "broken"}', true],
        [200, '\r\n{"errors": []}', false],
        [200, '', false],
        [204, '', false],
        [200, '0123456789012345', false],
      ],
      `in pieces of ${size} bytes`,
    )
  }
})

t.test('what is no answer, or does not say where it ends, is refused', async (t) => {
  for (const [text, message] of [
    ['SSH-2.0-x\r\n\r\n', /not HTTP/],
    ['HTTP/1.1 200 OK\r\n\r\n', /neither Content-Length nor chunks/],
    ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n', /not HTTP/],
    ['x'.repeat(70_000), /not HTTP/],
  ] as const) {
    const read = createReader(() => t.fail('heard'))
    t.throws(() => read(Buffer.from(text)), message)
  }
})

t.test('a percentile is the shortest time that so many answers did not exceed', async (t) => {
  const times = Float64Array.from({ length: 10 }, (_, n) => n + 1)

  t.same(
    [0.5, 0.9, 0.91, 0.99, 1].map((share) => percentile(times, share)),
    [5, 9, 10, 10, 10],
  )
  t.equal(percentile(new Float64Array(), 0.5), 0)
})
