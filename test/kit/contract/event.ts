import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { EventSender, OutgoingEvent } from '../../../core/host/contracts.js'
import { type ContractCase, withDeadlines } from './case.js'
import { assertReceipt, senderCases, soon } from './sender.js'
import type { Stage, TakenEvent } from './stage.js'

/** An event that nobody has sent yet. */
function event(): OutgoingEvent {
  const id = randomUUID()
  return { id, trigger: 'order_paid', body: `{"id": "${id}", "new": {"text": "Hello, wörld 👋", "total": 1.10}}` }
}

/** What a provider of events has to do. */
export const eventContract: readonly ContractCase<Stage<EventSender, TakenEvent>>[] = withDeadlines([
  {
    name: 'an event arrives as it is, and has a receipt',
    async run({ provider, taken }) {
      const before = (await taken()).length
      const sent = event()
      assertReceipt(await provider.send(sent, soon()))

      const [arrived, ...more] = (await taken()).slice(before)
      assert.equal(more.length, 0, 'it is sent once')
      assert.equal(arrived?.id, sent.id)
      assert.equal(arrived.body, sent.body)
    },
  },
  ...senderCases<OutgoingEvent, EventSender, TakenEvent>(event),
])
