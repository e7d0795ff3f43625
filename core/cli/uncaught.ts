import { type Origin, pluginToBlame } from '../host/blame.js'
import type { Loaded } from '../host/load.js'
import { createLogger } from '../log.js'

/** Uncaught errors and unhandled rejections of this process. */
export interface Uncaught {
  /** Resolves with the first such error, after logging it. */
  readonly first: Promise<Error>
  /** Plugins to attribute errors to. */
  plugins: readonly Origin[]
  /** Waits for `work`. @throws Error when an uncaught error comes first */
  unless<T>(work: Promise<T>): Promise<T>
}

/** Logs uncaught errors and keeps the process alive, so that the server can shut down. */
export function catchUncaught(): Uncaught {
  const log = createLogger({ level: 'fatal' })
  const first = new Promise<Error>((resolve) => {
    let known = false
    process.on('uncaughtException', (error, origin) => {
      // The server shuts down because of the first error. Later errors may be its consequences.
      if (known) return
      known = true
      const plugin = pluginToBlame(error, uncaught.plugins)
      const what = origin === 'unhandledRejection' ? 'unhandled promise rejection' : 'uncaught error'
      log.fatal({ ...(plugin === undefined ? {} : { plugin }), err: error }, what)
      resolve(error)
    })
  })
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
  return uncaught
}

export const pluginsOf = ({ plugins }: Loaded): readonly Origin[] =>
  plugins.map(({ plugin, module }) => ({ name: plugin.name, module }))
