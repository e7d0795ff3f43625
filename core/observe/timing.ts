import { ignore, inSpan, isTracing, type Note, type Step } from './tracing.js'

/** Durations of the steps of a request by name, in milliseconds. */
export class Timing {
  private readonly steps = new Map<string, number>()

  add(step: string, ms: number): void {
    this.steps.set(step, (this.steps.get(step) ?? 0) + ms)
  }

  get hasSteps(): boolean {
    return this.steps.size > 0
  }

  /** Returns the value of a `Server-Timing` header. */
  toString(): string {
    return Array.from(this.steps, ([step, ms]) => `${step};dur=${ms.toFixed(2)}`).join(', ')
  }
}

/** Runs a step of a request, and records its duration if requested. */
export function timed<T>(timing: Timing | undefined, step: string, run: () => T): T {
  if (!timing) return run()
  const since = performance.now()
  const add = () => timing.add(step, performance.now() - since)
  const result = run()
  if (!(result instanceof Promise)) {
    add()
    return result
  }
  return result.finally(add) as T
}

/**
 * Runs a step of a request in a span. A step that returns no promise leaves none. Errors show their code only, because
 * their messages may quote values.
 * @param describe called only if the step is traced
 */
export function traced<T>(describe: () => Step, run: (note: Note) => T): T {
  return isTracing ? inSpan(describe(), run) : run(ignore)
}
