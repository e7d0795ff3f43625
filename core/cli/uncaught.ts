import { type Origin, pluginToBlame } from '../host/blame.js'
import type { Loaded } from '../host/load.js'
import { createLogger } from '../log.js'

/** What is thrown, or rejected, where nothing catches it. */
export interface Uncaught {
  /** Resolves with the first such error, after a line in the log. */
  readonly first: Promise<Error>
  /** Whose errors there may be. */
  plugins: readonly Origin[]
  /** @throws Error when something is thrown that nothing catches, before `work` is done */
  unless<T>(work: Promise<T>): Promise<T>
}

/** From now on such an error does not end the process by itself. */
export function catchUncaught(): Uncaught {
  const log = createLogger({ level: 'fatal' })
  const first = new Promise<Error>((resolve) => {
    let known = false
    process.on('uncaughtException', (error, origin) => {
      // The server goes down for the first one. What comes after may be because of it.
      if (known) return
      known = true
      const plugin = pluginToBlame(error, uncaught.plugins)
      const what = origin === 'unhandledRejection' ? 'a promise was rejected' : 'an error was thrown'
      log.fatal({ ...(plugin === undefined ? {} : { plugin }), err: error }, `${what} where nothing catches it`)
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
