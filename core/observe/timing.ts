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
