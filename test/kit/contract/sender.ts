import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import { type Outcome, type Receipt, SendError } from '../../../core/host/contracts.js'
import { type ContractCase, within } from './case.js'
import { patience } from '../patience.js'
import type { Fault, Stage } from './stage.js'

interface Sender<M> {
  send(message: M, signal: AbortSignal): Promise<Receipt>
  readonly sendsOnceForSeconds?: number
  close?(): Promise<void>
}

/** A message is given up sooner than by any timeout of a provider's own. */
const GIVEN_UP_MS = 5000
/** What a proxy, a page for logging in, or a new version of an API may answer with status 200. */
const NONSENSE = [
  '',
  'null',
  '5',
  '[]',
  '{}',
  '{"id": null}',
  '{"id": {}}',
  '<!doctype html><p>Please log in',
  '{"id": "x',
]

/**
 * What every sender has to do, whatever it sends.
 * @param message one that nobody has sent yet
 */
export function senderCases<M, P extends Sender<M>, T>(message: () => M): readonly ContractCase<Stage<P, T>>[] {
  const going = (fault: Fault, check: (stage: Stage<P, T>) => Promise<void>) => async (stage: Stage<P, T>) => {
    if (!stage.fail) return
    stage.fail(fault)
    try {
      await check(stage)
    } finally {
      stage.fail()
    }
  }
  const trial = async ({ provider }: Stage<P, T>, signal = soon()): Promise<Receipt | Error> => {
    try {
      return await provider.send(message(), signal)
    } catch (error) {
      assert.ok(error instanceof Error, 'what is thrown is an error')
      return error
    }
  }
  const ends = (fault: Fault, ...outcomes: readonly Outcome[]) =>
    going(fault, async (stage) => {
      const result = await trial(stage)
      const outcome = outcomeOf(result)
      assert.ok(outcomes.includes(outcome as Outcome), `the outcome is ${outcome}: ${inspect(result)}`)
    })

  return [
    {
      name: 'two messages have two ids, and both are sent',
      async run(stage) {
        const before = (await stage.taken()).length
        const [one, other] = [
          await stage.provider.send(message(), soon()),
          await stage.provider.send(message(), soon()),
        ]
        assertReceipt(one)
        assertReceipt(other)
        assert.notEqual(one.id, other.id)
        assert.equal((await stage.taken()).length, before + 2)
      },
    },
    {
      name: 'the same message again has the same id, and is sent once, where a message is sent once',
      async run({ provider, taken }) {
        if (provider.sendsOnceForSeconds === undefined) return
        const before = (await taken()).length
        const same = message()
        const { id } = await provider.send(same, soon())
        assert.equal((await provider.send(same, soon())).id, id)
        assert.equal((await taken()).length, before + 1)
      },
    },
    {
      name: 'nothing is sent when nobody waits any more',
      async run({ provider, taken }) {
        const before = (await taken()).length
        await assert.rejects(async () => provider.send(message(), AbortSignal.abort()))
        assert.equal((await taken()).length, before)
      },
    },
    { name: 'a message that the API refuses is refused', run: ends({ kind: 'refused' }, 'refused') },
    {
      name: 'a fault of the API refuses no message',
      run: ends({ kind: 'failed', text: 'Internal Server Error' }, 'retry', 'unknown'),
    },
    {
      name: 'wrong credentials refuse no message',
      run: ends({ kind: 'unauthorized', text: 'Unauthorized' }, 'retry', 'unknown'),
    },
    {
      name: 'a connection that breaks before the request is read refuses no message',
      run: ends({ kind: 'unread' }, 'retry', 'unknown'),
    },
    {
      name: 'a message whose answer is lost may have been sent, and the provider does not send it again by itself',
      run: going({ kind: 'lost' }, async (stage) => {
        const before = (await stage.taken()).length
        assert.equal(outcomeOf(await trial(stage)), 'unknown')
        assert.equal((await stage.taken()).length, before + 1)
      }),
    },
    {
      name: 'a message that is given up while the API is silent may have been sent, and its end does not wait',
      async run(stage) {
        const abort = new AbortController()
        const check = going({ kind: 'silent', asked: () => setImmediate(() => abort.abort()) }, async () => {
          const trying = trial(stage, abort.signal)
          const aborted = new Promise((resolve) => abort.signal.addEventListener('abort', resolve))
          await Promise.race([aborted, trying])
          assert.equal(outcomeOf(await within(trying, GIVEN_UP_MS, 'a send that was given up did not end')), 'unknown')
        })
        await check(stage)
      },
    },
    ...NONSENSE.map((body) => ({
      name: `an accepted message with the answer ${JSON.stringify(body)} has a receipt, or may have been sent`,
      run: going({ kind: 'nonsense', body }, async (stage) => {
        const result = await trial(stage)
        if (result instanceof Error) assert.equal(outcomeOf(result), 'unknown')
        else assertReceipt(result)
      }),
    })),
    {
      name: 'a long reference is not cut, and the receipt has at most 1,000 characters',
      run: going({ kind: 'named', id: LONG }, async (stage) => {
        const result = await trial(stage)
        assert.ok(!(result instanceof Error), inspect(result))
        assertReceipt(result)
        assert.ok(!result.id.includes('long-') || result.id.includes(LONG), `the id is ${result.id}`)
      }),
    },
    {
      name: 'no error shows a credential, even if the API repeats it',
      async run(stage) {
        for (const kind of ['failed', 'unauthorized'] as const) {
          const text = JSON.stringify({ error: `wrong: ${stage.secrets.join(' ')}` })
          await going({ kind, text }, async () => {
            const shown = inspect(await trial(stage), { depth: 5 })
            for (const secret of stage.secrets) assert.ok(!shown.includes(secret), `${kind}: an error shows a secret`)
          })(stage)
        }
      },
    },
    {
      name: 'after all that a message is sent',
      async run({ provider, taken }) {
        const before = (await taken()).length
        assertReceipt(await provider.send(message(), soon()))
        assert.equal((await taken()).length, before + 1)
      },
    },
    {
      name: 'closing succeeds',
      async run({ provider, close }) {
        await provider.close?.()
        await close?.()
      },
    },
  ]
}

const LONG = `long-${'0123456789'.repeat(50)}`

export const soon = () => AbortSignal.timeout(patience(30_000))

export function assertReceipt(receipt: Receipt | undefined): void {
  assert.equal(typeof receipt?.id, 'string', 'the id is a text')
  assert.equal(typeof receipt?.detail, 'string', 'the detail is a text')
  const { id, detail } = receipt as Receipt
  assert.ok(id !== '' && id.length <= 1000, `the id has ${id.length} characters`)
  assert.ok(detail.length <= 1000, `the detail has ${detail.length} characters`)
}

/** An error that says nothing of it leaves it unknown whether the message was sent. */
function outcomeOf(result: Receipt | Error): Outcome | 'sent' {
  if (!(result instanceof Error)) return 'sent'
  return result instanceof SendError ? result.outcome : 'unknown'
}
