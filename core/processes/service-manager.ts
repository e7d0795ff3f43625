import { execFile } from 'node:child_process'
import type { Logger } from 'pino'

/** Tells systemd what this server does, as a unit with `Type=notify` expects. */
interface ServiceManager {
  /**
   * The server answers, also after a reload that failed.
   * @param status for `systemctl status`
   */
  ready(status?: string): Promise<void>
  /** Its processes are being replaced. Call `ready` afterwards. */
  reloading(): Promise<void>
  stopping(): Promise<void>
}

/** Maximum time for a message, in milliseconds. */
const TELL_MS = 5000

/**
 * Returns the service manager that started this process. Node.js has no datagrams on unix sockets, so a program of systemd
 * sends the messages, one after the other. Without a service manager nothing is sent.
 * @see sd_notify(3), systemd.service(5) on `Type=notify`
 */
export function serviceManager(log: Logger): ServiceManager {
  const socket = process.env['NOTIFY_SOCKET']
  let sent = Promise.resolve()
  let isMissing = false

  const send = (state: readonly string[]): Promise<void> =>
    new Promise((resolve) => {
      const options = { timeout: TELL_MS, env: { PATH: process.env['PATH'], NOTIFY_SOCKET: socket } }
      execFile('systemd-notify', [...state], options, (error) => {
        if (error && !isMissing)
          log.warn({ error: error.message }, 'systemd-notify failed; systemd does not know this state')
        isMissing = error !== null
        resolve()
      })
    })
  const tell = (...state: readonly string[]): Promise<void> =>
    socket === undefined ? sent : (sent = sent.then(() => send(state)))

  return {
    ready: (status = '') => tell('READY=1', `STATUS=${status}`),
    // systemd compares this time of CLOCK_MONOTONIC, which `hrtime` reads too, with that of its own signal.
    reloading: () => tell('RELOADING=1', `MONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`),
    stopping: () => tell('STOPPING=1'),
  }
}
