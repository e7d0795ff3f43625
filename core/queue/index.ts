/** Parts of plugins that do work which no request waits for: `rowhouse/queue`. */
export { CircuitBreaker } from './circuit-breaker.js'
export { Deadline } from './deadline.js'
export { jittered, pauseAfter } from './pause.js'
export { Periodic, untilEnded } from './periodic.js'
export { RateLimiter } from './rate-limiter.js'
export { type Work, Worker } from './worker.js'
