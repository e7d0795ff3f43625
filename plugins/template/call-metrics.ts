import type { Host } from 'rowhouse'
import { ServiceError } from 'rowhouse/plan'

/** Maximum number of templates with figures of their own. */
const MOST_TEMPLATES = 500

/** Counts and times the calls of templates. */
export class CallMetrics {
  private readonly names = new Set<string>()
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
      this.seconds.observe({ template: this.label(name), outcome }, (performance.now() - started) / 1000)
    }
  }

  private label(name: string): string {
    if (this.names.has(name)) return name
    if (this.names.size >= MOST_TEMPLATES) return ''
    this.names.add(name)
    return name
  }
}
