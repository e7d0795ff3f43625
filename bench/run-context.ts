import { AsyncLocalStorage } from 'node:async_hooks'
import type { Display } from './progress.js'

/** What surrounds every round of a run; a scenario need not know of it. */
export interface RunContext {
  readonly display?: Display
}

const current = new AsyncLocalStorage<RunContext>()

/** Runs all of it with those around it. */
export const withRunContext = <T>(context: RunContext, run: () => Promise<T>): Promise<T> => current.run(context, run)

export const runContext = (): RunContext => current.getStore() ?? {}
