import { type Host, SendError } from 'rowhouse'
import { CircuitBreaker, RateLimiter } from 'rowhouse/queue'

/** Maximum time that an event waits for the rate limit of a provider. */
const RATE_WAIT_MS = 2000

interface Options {
  readonly perSecond: Readonly<Record<string, number>>
  readonly breaker: { readonly failures: number; readonly seconds: number }
}
/** An event, and its JSON. */
interface Outgoing {
  readonly id: string
  readonly trigger: string
  readonly body: string
}
/** What came of a call: a receipt, or for how many seconds the provider must not be called. */
type Sent = { readonly detail: string } | { readonly waitSeconds: number }

/** The providers of events, each with its own limits. */
export class Receivers {
  private readonly guards = new Map<string, { readonly breaker: CircuitBreaker; readonly rate: RateLimiter }>()

  constructor(
    private readonly host: Pick<Host, 'provider'>,
    private readonly options: Options,
  ) {}

  /** Whether a provider is skipped after failures. */
  isSkipped(name: string): boolean {
    return this.guardsOf(name).breaker.open
  }

  /** @throws SendError and others */
  async send(name: string, event: Outgoing, signal: AbortSignal): Promise<Sent> {
    const provider = await this.host.provider('event', name)
    const { breaker, rate } = this.guardsOf(name)
    if (breaker.open) return { waitSeconds: breaker.seconds }
    const waitMs = await rate.acquire(RATE_WAIT_MS)
    if (waitMs > 0) return { waitSeconds: waitMs / 1000 }
    if (!breaker.allows()) return { waitSeconds: breaker.seconds }
    try {
      const { detail } = await provider.send(event, signal)
      breaker.succeeded()
      return { detail: String(detail).slice(0, 1000) }
    } catch (error) {
      if (error instanceof SendError && error.outcome === 'refused') breaker.succeeded()
      else breaker.failed()
      throw error
    }
  }

  private guardsOf(name: string) {
    let guards = this.guards.get(name)
    if (!guards) {
      const rate = new RateLimiter(this.options.perSecond[name])
      this.guards.set(name, (guards = { breaker: new CircuitBreaker(this.options.breaker), rate }))
    }
    return guards
  }
}
