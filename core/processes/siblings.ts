import cluster from 'node:cluster'
import { randomUUID } from 'node:crypto'
import { runWithin } from '../deadline.js'

/** The processes that serve the same ports, including this one. */
export interface Siblings {
  /** Number of this process, from 1; undefined for a process alone. */
  readonly number: number | undefined
  readonly count: number
  /** Id of the server that they are. A server that is started again has another one. */
  readonly server: string
  /** Sets what this process answers when one of them asks. */
  answer(question: string, reply: Reply): void
  /** Asks all of them. Leaves out those that fail or do not answer in time. */
  ask(question: string, args?: unknown): Promise<readonly unknown[]>
}
type Reply = (args: never) => unknown

/** A process without siblings. */
export function alone(): Siblings {
  const replies = new Map<string, Reply>()
  return {
    number: undefined,
    count: 1,
    server: randomUUID(),
    answer: (question, reply) => void replies.set(question, reply),
    ask: async (question, args) => [await replies.get(question)?.(args as never)],
  }
}

/** What the supervisor and its processes tell each other. */
export type ToSupervisor =
  | { readonly rowhouse: 'ready'; readonly shutdownTimeoutMs: number }
  | { readonly rowhouse: 'ask'; readonly id: number; readonly question: string; readonly args: unknown }
  | { readonly rowhouse: 'answer'; readonly id: number; readonly value?: unknown; readonly failed?: boolean }
export type ToProcess =
  | { readonly rowhouse: 'question'; readonly id: number; readonly question: string; readonly args: unknown }
  | { readonly rowhouse: 'answers'; readonly id: number; readonly values: readonly unknown[] }
  | { readonly rowhouse: 'retire' }

/** Name of the variable in which a supervisor tells a process its place. */
export const PLACE = 'SUPERVISED_BY_ROWHOUSE'
export interface Place {
  readonly number: number
  readonly count: number
  readonly server: string
  /** The mask for new files. The supervisor has a stricter one. */
  readonly umask: number
  /** Whether other processes serve already. Why it does not start is then for the log. */
  readonly isReplacement: boolean
}

/** A process under a supervisor. */
interface Supervised extends Siblings, Pick<Place, 'isReplacement'> {
  readonly number: number
  /** Resolves when another process has taken over, or when the supervisor is gone. */
  readonly retired: Promise<void>
  /** Tells the supervisor that this process serves requests. */
  ready(shutdownTimeoutMs: number): void
}

/** Maximum time to wait for answers. Longer than the supervisor waits. */
const ANSWER_MS = 5000

/** Returns the supervisor's side of this process; undefined in a process that was started by itself. */
export function supervised(): Supervised | undefined {
  const text = process.env[PLACE]
  if (!cluster.worker || text === undefined) return undefined
  // Programs that this process starts are not supervised.
  delete process.env[PLACE]
  const { number, count, server, umask, isReplacement } = JSON.parse(text) as Place
  process.umask(umask)
  // Otherwise, when the supervisor is killed, Node ends this process immediately and its requests fail.
  cluster.worker.exitedAfterDisconnect = true

  const replies = new Map<string, Reply>([['alive', () => true]])
  const waiting = new Map<number, (values: readonly unknown[]) => void>()
  let asked = 0
  let retire: () => void
  const retired = new Promise<void>((resolve) => (retire = resolve))
  const tell = (message: ToSupervisor) => process.connected && void process.send!(message, () => {})

  async function reply({ id, question, args }: Extract<ToProcess, { readonly rowhouse: 'question' }>): Promise<void> {
    try {
      const known = replies.get(question)
      tell({ rowhouse: 'answer', id, ...(known ? { value: await known(args as never) } : { failed: true }) })
    } catch {
      tell({ rowhouse: 'answer', id, failed: true })
    }
  }
  process.on('disconnect', () => retire())
  process.on('message', (message: ToProcess) => {
    if (message.rowhouse === 'retire') retire()
    else if (message.rowhouse === 'answers') waiting.get(message.id)?.(message.values)
    else if (message.rowhouse === 'question') void reply(message)
  })
  return {
    number,
    count,
    server,
    isReplacement,
    retired,
    ready: (shutdownTimeoutMs) => tell({ rowhouse: 'ready', shutdownTimeoutMs }),
    answer: (question, reply) => void replies.set(question, reply),
    async ask(question, args) {
      const id = ++asked
      try {
        const answers = new Promise<readonly unknown[]>((resolve) => waiting.set(id, resolve))
        tell({ rowhouse: 'ask', id, question, args })
        return await runWithin('the supervisor', question, () => answers, ANSWER_MS)
      } finally {
        waiting.delete(id)
      }
    },
  }
}
