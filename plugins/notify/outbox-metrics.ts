import { setTimeout as sleep } from 'node:timers/promises'
import type { Host } from 'rowhouse'
import type { Backlog, Outbox } from './outbox.js'

const FRESH_MS = 5000
const WAIT_MS = 2000
const CHANNELS = ['email', 'sms'] as const
const STATES = ['queued', 'sending', 'partly_sent', 'failed', 'unknown'] as const

/** Adds metrics of the messages that were not sent. Without the database they have no values. */
export function addOutboxMetrics({ metric }: Pick<Host, 'metric'>, outbox: Pick<Outbox, 'backlog'>): void {
  let readAt = -Infinity
  let isReading = false
  let reading: Promise<readonly Backlog[] | undefined>

  /** Reads the outbox for both metrics, and for frequent readers, once. The other metrics do not wait long for it. */
  function backlog(): Promise<readonly Backlog[] | undefined> {
    if (!isReading && performance.now() - readAt > FRESH_MS) {
      readAt = performance.now()
      isReading = true
      reading = outbox
        .backlog()
        .catch(() => undefined)
        .finally(() => (isReading = false))
    }
    return Promise.race([reading, sleep(WAIT_MS, undefined, { ref: false })])
  }

  const help = 'Messages of all servers that were not sent, by state.'
  metric.gauge('outbox_messages', help, ['kind', 'state'], async (gauge) => {
    const all = await backlog()
    gauge.reset()
    for (const kind of CHANNELS) {
      for (const state of STATES) {
        const found = all?.find((each) => each.channel === kind && each.state === state)
        if (all) gauge.set({ kind, state }, found?.count ?? 0)
      }
    }
  })
  const ageHelp = 'Time since the oldest message that is queued or being sent was queued. 0 without one.'
  metric.gauge('outbox_oldest_seconds', ageHelp, ['kind'], async (gauge) => {
    const all = await backlog()
    gauge.reset()
    for (const kind of CHANNELS) {
      const ages = all?.map(({ channel, state, age }) => (channel === kind && isWaiting(state) ? age : 0))
      if (ages) gauge.set({ kind }, Math.max(0, ...ages))
    }
  })
}

const isWaiting = (state: Backlog['state']): boolean => state === 'queued' || state === 'sending'
