import { effect, signal, type Signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { ask, query, recovered, send } from '../../api.js'
import { isAdmin } from '../../session.js'
import { kept } from './history.js'
import { parseMetrics } from '../../metrics-text.js'
import { type Sample, sampleOf } from './samples.js'

/** What was read last, which stays when the next reading fails. */
interface Reading<T> {
  readonly value?: T
  /** Milliseconds since 1970. */
  readonly at?: number
  readonly failure?: unknown
}

interface Probe {
  readonly name: string
  readonly ok: boolean
  readonly detail?: string
}

interface Readiness {
  readonly status: string
  /** Absent while the server cannot tell who asks. */
  readonly probes?: readonly Probe[]
}

interface Pool {
  readonly name: string
  readonly max: number
  readonly busy: number
  readonly idle?: number
  readonly open?: number
  readonly waiting?: number
}

export interface ConnectedServer {
  /** null for a unix socket. */
  readonly address: string | null
  readonly own: boolean
  readonly servers: number
  readonly connections: number
  readonly since: string
}

export interface ServerStatus {
  /** Chosen anew by each start. */
  readonly server: string
  readonly version: string
  readonly node: string
  readonly platform: string
  readonly host: string
  readonly pid: number
  readonly started_at: string
  readonly plugins: readonly string[]
  readonly providers: readonly {
    readonly kind: string
    readonly name: string
    readonly provider: string
    readonly default: boolean
  }[]
  readonly metadata: { readonly version: string; readonly listening: boolean }
  readonly pools: readonly Pool[]
  readonly database: {
    readonly version: string
    readonly standby: boolean
    readonly metadata_version: string
    readonly migrations: Readonly<Record<string, string>> | null
    readonly servers: readonly ConnectedServer[] | null
  } | null
}

interface KnownStatus extends ServerStatus {
  /** What the database said last: while it is down, `database` is null. */
  readonly knownDatabase: ServerStatus['database'] | undefined
}

export interface SlowQuery {
  readonly id: string
  readonly role: string
  readonly kind: string
  readonly planner: string
  readonly name?: string
  readonly sql: string
  readonly count: number
  readonly total_ms: number
  readonly mean_ms: number
  readonly max_ms: number
  readonly last_seen: string
}

interface SlowQueries {
  readonly server: string
  /** null if slow statements are not listed. */
  readonly threshold_ms: number | null
  readonly queries: readonly SlowQuery[]
}

/** They outlive the panel: it is a new one after trouble, and whenever the caller changes. */
export const samples = signal<Reading<readonly Sample[]>>({})
export const readiness = signal<Reading<Readiness>>({})
export const status = signal<Reading<KnownStatus>>({})
export const slowQueries = signal<Reading<SlowQueries>>({})

effect(() => {
  if (isAdmin.value) return
  samples.value = {}
  readiness.value = {}
  status.value = {}
  slowQueries.value = {}
})

/** All figures are about the server, so they are asked as the admin who signed in. */
const AS_ADMIN = { as: null }

export async function readMetrics(signal: AbortSignal): Promise<readonly Sample[]> {
  const text = await (await send('/metrics', { ...AS_ADMIN, signal })).text()
  return kept(samples.peek().value ?? [], sampleOf(parseMetrics(text), Date.now()))
}

export const readReadiness = (signal: AbortSignal) => ask<Readiness>('/readyz', { ...AS_ADMIN, signal, answers: [503] })
export async function readStatus(signal: AbortSignal): Promise<KnownStatus> {
  const now = await query<ServerStatus>('server_status', {}, { ...AS_ADMIN, signal })
  return { ...now, knownDatabase: now.database ?? status.peek().value?.knownDatabase }
}
export const readSlowQueries = (signal: AbortSignal) => query<SlowQueries>('slow_queries', {}, { ...AS_ADMIN, signal })
export const readPlan = (id: string, signal: AbortSignal) =>
  query<{ readonly plan: readonly string[] }>('slow_queries', { plan: id }, { ...AS_ADMIN, signal })

/** Reads now, and again and again while the page is visible. */
export function useWatched<T>(
  into: Signal<Reading<T>>,
  read: (signal: AbortSignal) => Promise<T>,
  everyMs: number,
): void {
  useRepeated(async (abort) => {
    try {
      const value = await read(abort)
      if (!abort.aborted) into.value = { value, at: Date.now() }
    } catch (failure) {
      if (!abort.aborted) into.value = { ...into.peek(), failure }
    }
  }, everyMs)
}

/**
 * Runs a function at intervals until the component unmounts, and immediately when the server is ready again. The function must
 * not reject.
 */
export function useRepeated(run: (signal: AbortSignal) => Promise<void>, everyMs: number, isActive = true): void {
  const isRecovered = recovered.value
  useEffect(() => {
    if (!isActive) return
    const ending = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    let isRunning = false
    const next = async () => {
      clearTimeout(timer)
      if (isRunning || document.hidden || ending.signal.aborted) return
      isRunning = true
      await run(ending.signal)
      isRunning = false
      if (!ending.signal.aborted) timer = setTimeout(() => void next(), everyMs)
    }
    const onVisible = () => void next()
    document.addEventListener('visibilitychange', onVisible)
    void next()
    return () => {
      ending.abort()
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', onVisible)
    }
  }, [everyMs, isActive, isRecovered])
}
