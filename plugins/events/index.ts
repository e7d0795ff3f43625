import { type Call, definePlugin, ServiceError, setting } from 'rowhouse'
import { Worker } from 'rowhouse/queue'
import { capture } from './capture.js'
import { Delivery, type Handler } from './delivery.js'
import { addOperations } from './operations.js'
import { Receivers } from './receivers.js'
import { addScheduleOperations } from './schedule-operations.js'
import { Schedules } from './schedules.js'
import { migrations } from './schema.js'
import { type Claimed, Store } from './store.js'
import { Triggers } from './triggers.js'

export type { Handler, RowEvent } from './delivery.js'

/** The service for other plugins. */
export interface EventsService {
  /**
   * Handles the events of triggers with `"to": {"plugin": name}`. Call it during setup.
   * @throws Error if a plugin handles this name already
   */
  on(name: string, handler: Handler): void
}
declare module 'rowhouse' {
  interface Services {
    events: EventsService
  }
}

const PRUNE_MS = 60_000
const SCHEDULES_MS = 1000

/** Row events and schedules: delivers each change of a row, and each time that is due, to a template, a plugin or a provider at least once. */
export default definePlugin({
  name: 'events',
  needs: ['data', 'operations'],
  config: {
    type: 'object',
    properties: {
      concurrency: {
        ...setting.amount(
          8,
          'Events that a server delivers at the same time. With 0, it leaves them to other servers.',
        ),
        maximum: 100,
      },
      scheduleRoles: {
        type: 'array',
        items: { type: 'string' },
        default: [],
        description: 'Roles that may schedule their own templates with `schedule_once`, beside admin.',
      },
      concurrencyPerTrigger: setting.count(4, 'Events of one trigger that a server delivers at the same time.'),
      perSecond: {
        type: 'object',
        additionalProperties: { type: 'number', minimum: 0.001 },
        default: {},
        description: 'Maximum events per second from this server, by provider; no limit for other providers.',
      },
      breaker: setting.advanced.section('When a provider is not called for a while.', {
        failures: setting.advanced.count(5, 'Consecutive failures after which a provider is skipped.'),
        seconds: {
          type: 'number',
          minimum: 0.01,
          default: 30,
          description: 'How long the provider is skipped.',
          advanced: true,
        },
      }),
      keepDays: setting.count(1, 'Days to keep events for that were delivered.'),
      keepFailedDays: setting.count(30, 'Days to keep events for that were given up.'),
      maxEventBytes: setting.count(1024 * 1024, 'Maximum size of an event. Larger ones fail.'),
      pollMs: setting.advanced.count(200, 'Interval at which the server looks for events while there are triggers.'),
      orphanSeconds: setting.advanced.count(60, 'Interval at which events of dropped triggers fail.'),
      leaseSeconds: {
        type: 'integer',
        minimum: 2,
        default: 60,
        description: 'Time after which another server may take over an event; an attempt ends after half of it.',
        advanced: true,
      },
      retrySeconds: {
        type: 'number',
        minimum: 0.01,
        default: 5,
        description: 'Pause before the second attempt; it doubles with each further attempt, up to 15 minutes.',
        advanced: true,
      },
    },
  },
  migrations,
  setup(host, options) {
    const data = host.use('data')
    const operations = host.use('operations')
    const log = host.use('log')
    const store = new Store(data, options)
    const triggers = new Triggers(data)
    const schedules = new Schedules(data, log)
    const handlers = new Map<string, Handler>()
    const receivers = new Receivers(host, options)
    /** Number of events in progress, by trigger. */
    const active = new Map<string, number>()
    const ended = host.metric.counter('events_total', 'Attempts to deliver an event, by result.', ['trigger', 'state'])
    data.describeCatalog({ captures: new Map([['events', capture]]) })
    const delivery = new Delivery({
      data,
      operations,
      log,
      store,
      triggers,
      handlers,
      receivers,
      options,
      count: (trigger, state) => ended.inc({ trigger, state }),
    })
    const worker = new Worker<Claimed>(log, {
      concurrency: options.concurrency,
      batch: Math.ceil(Math.min(options.concurrency, options.concurrencyPerTrigger) / 2),
      claim: oncePerOutage([], async (limit: number) => {
        const slots = (await triggers.all()).map(({ name, trigger }) => {
          const isSkipped = 'provider' in trigger.to && receivers.isSkipped(trigger.to.provider)
          const free = isSkipped ? 0 : Math.min(limit, options.concurrencyPerTrigger - (active.get(name) ?? 0))
          return { trigger: name, isOrdered: trigger.order_by !== undefined, free }
        })
        return store.claim(shuffled(slots.filter(({ free }) => free > 0)), limit, schedules.isActive)
      }),
      async run(claimed, since) {
        const { trigger } = claimed
        active.set(trigger, (active.get(trigger) ?? 0) + 1)
        await delivery.deliver(claimed, since).finally(() => {
          const rest = (active.get(trigger) ?? 1) - 1
          if (rest > 0) active.set(trigger, rest)
          else active.delete(trigger)
        })
      },
      abort: () => delivery.abortAll(),
    })
    const providers = host.providerNames('event')
    const targetsFor = (call: Call) => ({ providers, templates: data.catalogFor(call).templates })
    addOperations(host, { data, operations, store, targetsFor, wake: () => worker.wake() })
    addScheduleOperations(host, { data, roles: options.scheduleRoles, targetsFor })
    const tick = oncePerOutage(false, (signal: AbortSignal) => schedules.tick(signal))
    host.every('make events of schedules', SCHEDULES_MS, async (signal) => {
      if (await tick(signal)) worker.wake()
    })
    host.health('triggers', async () => {
      const stopped = await store.stopped()
      if (stopped.length > 0) return `stopped by their receiver: ${stopped.join(', ')} (resume_event_trigger)`
    })
    host.onReady(() => {
      if (host.background) worker.start((task) => host.every('look for events', options.pollMs, task))
    })
    host.every('delete old events', PRUNE_MS, async (signal) => {
      while (!signal.aborted && (await store.prune('done', options.keepDays))) {}
      while (!signal.aborted && (await store.prune('failed', options.keepFailedDays))) {}
    })
    host.every('end events of dropped triggers', options.orphanSeconds * 1000, async (signal) => {
      const waiting = await store.waiting()
      // Read later: a trigger that is not there by now was dropped.
      const known = new Set(waiting.length > 0 ? (await triggers.all(true)).map(({ name }) => name) : [])
      for (const name of waiting.filter((each) => !known.has(each))) {
        while (!signal.aborted && (await store.giveUp(name, `there is no trigger "${name}"`))) {}
      }
    })
    host.onDrain(() => worker.stop())
    return {
      on(name, handler) {
        if (handlers.has(name)) throw new Error(`events of "${name}" have a handler already`)
        handlers.set(name, handler)
      },
    }
  },
})

/** Returns a function that fails once while the database is unavailable, instead of a line in the log at each interval. */
function oncePerOutage<A, T>(nothing: T, run: (given: A) => Promise<T>): (given: A) => Promise<T> {
  let isOut = false
  return async (given) => {
    try {
      const result = await run(given)
      isOut = false
      return result
    } catch (error) {
      const wasOut = isOut
      isOut = error instanceof ServiceError && error.status === 503
      if (isOut && wasOut) return nothing
      throw error
    }
  }
}

/** No trigger has to wait for those before it. */
function shuffled<T>(list: readonly T[]): readonly T[] {
  return list
    .map((each) => ({ each, place: Math.random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ each }) => each)
}
