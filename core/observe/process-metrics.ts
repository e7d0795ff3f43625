import type * as Library from 'prom-client'
import collect from 'prom-client/lib/defaultMetrics.js'

/** Adds memory, CPU time and the event loop of this process to a registry. */
export const collectProcessMetrics = collect as typeof Library.collectDefaultMetrics
