import t from 'tap'
import { Outbox } from '../../plugins/graphql/socket/outbox.js'

/** A WebSocket whose client takes what it is sent when it is told to. */
function slowSocket() {
  const pending: { readonly text: string; readonly done: () => void }[] = []
  const sent: string[] = []
  const socket = {
    OPEN: 1,
    readyState: 1,
    isPaused: false,
    get bufferedAmount() {
      return pending.reduce((sum, { text }) => sum + text.length, 0)
    },
    send(text: string, done: () => void) {
      sent.push(text)
      pending.push({ text, done })
    },
    pause: () => void (socket.isPaused = true),
    resume: () => void (socket.isPaused = false),
  }
  let taken = 0
  const outbox = new Outbox(socket as never, () => taken++)
  return { socket, sent, outbox, take: () => pending.shift()?.done(), taken: () => taken }
}
const LONG = 'x'.repeat(100_000)

t.test('of a subscription, only the newest answer waits for a client that is behind', async (t) => {
  const { outbox, sent, take, taken } = slowSocket()
  const [a, b, c] = [{}, {}, {}]

  outbox.send(LONG)
  for (const text of ['a1', 'a2', 'a3']) outbox.sendNewest(a, text)
  outbox.sendNewest(b, 'b1')
  outbox.sendNewest(c, 'c1')
  outbox.forget(b)
  outbox.flush(c)

  t.same(sent, [LONG, 'c1'])
  take()
  t.same(sent, [LONG, 'c1', 'a3'])
  t.equal(taken(), 1)
})

t.test('a client that is behind is not heard, and what it cannot get is over', async (t) => {
  const { outbox, socket, sent, take } = slowSocket()
  let over = 0

  outbox.send('short', () => over++)
  t.notOk(socket.isPaused)
  outbox.send(LONG, () => over++)
  t.ok(socket.isPaused)
  take()
  t.ok(socket.isPaused)
  take()
  t.notOk(socket.isPaused)
  socket.readyState = 3
  outbox.send('late', () => over++)

  t.same([sent, over], [['short', LONG], 3])
})
