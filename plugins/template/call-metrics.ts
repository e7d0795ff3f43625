import type { Host } from 'rowhouse'
import { ServiceError } from 'rowhouse/plan'

/** Maximum number of templates with figures of their own. */
const MOST_TEMPLATES = 500

/** Counts and times the calls of templates. */
export class CallMetrics {
  private readonly byName = new Map<string, Calls>()
  private readonly seconds: ReturnType<Host['metric']['histogram']>

  constructor(host: Host) {
    this.seconds = host.metric.histogram(
      'duration_seconds',
      'Time of calls of query templates',
      ['template', 'outcome'],
      [0.01, 0.1, 1, 10],
    )
  }

  /** Runs a call. A streamed response counts until its first rows. */
  async measure<T>(name: string, fn: () => Promise<T>): Promise<T> {
    const started = performance.now()
    let outcome = 'ok'
    try {
      return await fn()
    } catch (error) {
      outcome = error instanceof ServiceError && error.status < 500 ? 'refused' : 'failed'
      throw error
    } finally {
      const ms = performance.now() - started
      const calls = this.callsOf(name)
      if (calls) {
        calls.count++
        calls.totalMs += ms
      }
      this.seconds.observe({ template: calls ? name : '', outcome }, ms / 1000)
    }
  }

  /** Returns the calls of a template in this process. */
  of(name: string): Readonly<Calls> {
    return this.byName.get(name) ?? NONE
  }

  private callsOf(name: string): Calls | undefined {
    const known = this.byName.get(name)
    if (known || this.byName.size >= MOST_TEMPLATES) return known
    const calls = { ...NONE }
    this.byName.set(name, calls)
    return calls
  }
}

interface Calls {
  count: number
  totalMs: number
}
const NONE: Readonly<Calls> = { count: 0, totalMs: 0 }
