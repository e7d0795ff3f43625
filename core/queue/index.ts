/** Parts of plugins that do work which no request waits for. */
export { Periodic, untilEnded } from './periodic.js'
