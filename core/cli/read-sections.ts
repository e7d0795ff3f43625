import { type LoadedConfig, loadConfig } from '../host/config.js'
import { checks, sections } from '../host/sections.js'
import type { ConfigSource } from './invocation.js'

/** Returns the source of a command's configuration. */
export function source({ flags: { config, host, port }, env, cwd, logTo }: ConfigSource) {
  return {
    env,
    cwd,
    logTo,
    ...(typeof config === 'string' ? { file: config } : {}),
    overrides: { http: { ...(host === undefined ? {} : { host }), ...(port === undefined ? {} : { port }) } },
  }
}

/** Reads the configuration without plugins and providers. @throws ConfigError */
export function readSections(from: ConfigSource): Promise<LoadedConfig<typeof sections>> {
  return loadConfig({ ...source(from), sections, checks })
}
