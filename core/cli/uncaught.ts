import { type Origin, pluginToBlame } from '../host/blame.js'
import type { Loaded } from '../host/load.js'
import { createLogger } from '../observe/log.js'
import type { Invocation } from './invocation.js'

/** Uncaught errors and unhandled rejections of this process. */
export interface Uncaught {
  /** Resolves with the first such error, after logging it. */
  readonly first: Promise<Error>
  /** Plugins to attribute errors to. */
  plugins: readonly Origin[]
  /** Waits for `work`. @throws Error when an uncaught error comes first */
  unless<T>(work: Promise<T>): Promise<T>
}

/** Logs uncaught errors while `run` runs, and keeps the process alive, so that the server can shut down. */
export function catchingUncaught<T>({ logTo }: Invocation, run: (uncaught: Uncaught) => Promise<T>): Promise<T> {
  const log = createLogger({ level: 'fatal', destination: logTo })
  let found: (error: Error) => void
  const first = new Promise<Error>((resolve) => (found = resolve))
  let known = false
  const handle = (error: Error, origin: NodeJS.UncaughtExceptionOrigin) => {
    // The server shuts down because of the first error. Later errors may be its consequences.
    if (known) return
    known = true
    const plugin = pluginToBlame(error, uncaught.plugins)
    const what = origin === 'unhandledRejection' ? 'unhandled promise rejection' : 'uncaught error'
    log.fatal({ ...(plugin === undefined ? {} : { plugin }), err: error }, what)
    found(error)
  }
  const uncaught: Uncaught = {
    first,
    plugins: [],
    unless: (work) =>
      Promise.race([
        work,
        first.then((cause) => {
          throw new Error('the server did not start', { cause })
        }),
      ]),
  }
  process.on('uncaughtException', handle)
  return run(uncaught).finally(() => process.off('uncaughtException', handle))
}

export const pluginsOf = ({ plugins }: Loaded): readonly Origin[] =>
  plugins.map(({ plugin, module }) => ({ name: plugin.name, module }))
