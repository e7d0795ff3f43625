import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { ConfigSource } from './invocation.js'

/** A command of a built-in plugin. */
export interface ListedCommand {
  readonly plugin: string
  readonly name: string
  readonly summary: string
  /** Whether it works without the plugin being loaded. */
  readonly standalone: boolean
  /** Whether it is there without a configuration. */
  readonly default: boolean
}

/** The build writes it. To import all plugins for their commands would take most of the time of `rowhouse --help`. */
export const LIST = fileURLToPath(new URL('plugin-commands.json', import.meta.url))

/** Returns the commands of all built-in plugins. */
export const listedCommands = (): readonly ListedCommand[] =>
  JSON.parse(readFileSync(LIST, 'utf8')) as readonly ListedCommand[]

/** Returns whether a configuration may change which plugins are loaded. */
export function hasOwnPlugins(args: readonly string[], { env, cwd }: Pick<ConfigSource, 'env' | 'cwd'>): boolean {
  return (
    args.some((arg) => arg.startsWith('--config')) ||
    Object.keys(env).some((name) => /^ROWHOUSE_(CONFIG|PLUGINS)/.test(name)) ||
    readdirSync(cwd).some((name) => name.startsWith('rowhouse.config.'))
  )
}
