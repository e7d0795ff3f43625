import { runWithin, type Within } from '../deadline.js'
import { messageOf } from '../errors.js'
import { placeOf } from './blame.js'

/** Steps in the life of a plugin. */
export type Step = 'setup' | 'ready' | 'drain' | 'close'

/** A function to run at a step. */
export interface Hook {
  /** Its owner as named in errors: `plugin "hello"`. */
  readonly owner: string
  run(): Promise<void> | void
}

/**
 * Runs one step of one plugin.
 * @throws Error that names the plugin and the step, when it fails or times out
 */
export function runStep<T>(plugin: string, step: Step, run: () => Promise<T> | T, timeoutMs: number): Promise<T> {
  return runWithin(`plugin "${plugin}"`, step, run, timeoutMs, placed(step))
}

/** Runs hooks sequentially in the order they were added. Stops at the first failure. */
export async function runHooks(hooks: readonly Hook[], step: Step, timeoutMs: number): Promise<void> {
  for (const hook of hooks) await runWithin(hook.owner, step, () => hook.run(), timeoutMs, placed(step))
}

/** A function to run at shutdown. */
export interface Closer extends Hook {
  /** Defaults to `close`. */
  readonly step?: Step
}

/**
 * Runs hooks in reverse order, despite failures, until the time limit.
 * @param timeoutMs limit for all hooks together
 * @throws AggregateError with every failure; the last one names the unfinished hooks, if any
 */
export async function closeHooks(hooks: readonly Closer[], timeoutMs: number): Promise<void> {
  const failures: unknown[] = []
  const deadline = performance.now() + timeoutMs
  for (const { owner, step = 'close', run } of hooks.toReversed()) {
    try {
      await runWithin(owner, step, run, timeoutMs, { deadline })
    } catch (error) {
      failures.push(error)
      if (performance.now() >= deadline) break
    }
  }
  if (failures.length > 0) throw new AggregateError(failures, failures.map(messageOf).join('; '))
}

/** An error at the start is the plugin's own mistake, so its message says where. */
const placed = (step: Step): Within => (step === 'setup' || step === 'ready' ? { place: placeOf } : {})
