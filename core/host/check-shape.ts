import { didYouMean } from '../wording.js'
import { isObject } from '../json/value.js'
import { apiProblem } from './api-version.js'
import { CORE_SERVICES } from './load-order.js'
import type { Plugin, Provider } from './plugin.js'

export type Shaped<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly message: string }

/** Checks whether an imported value is a plugin, and explains why not. */
export function asPlugin(value: unknown): Shaped<Plugin> {
  const problem = isObject(value) ? pluginProblem(value) : 'is not an object; create it with definePlugin'
  return problem === undefined ? { ok: true, value: value as Plugin } : { ok: false, message: `the plugin ${problem}` }
}

/** Checks whether an imported value is a provider of this kind, and explains why not. */
export function asProvider(value: unknown, kind: string): Shaped<Provider> {
  const problem = isObject(value) ? providerProblem(value, kind) : 'is not an object; create it with defineProvider'
  if (problem !== undefined) return { ok: false, message: `the provider ${problem}` }
  return { ok: true, value: value as Provider }
}

type Fields = Readonly<Record<string, unknown>>
const isNames = (value: unknown) => Array.isArray(value) && value.every((item) => typeof item === 'string')

const NAME = /^[a-z][a-z0-9-]*$/

const PLUGIN_KEYS = ['name', 'api', 'database', 'needs', 'wants', 'config', 'migrations', 'commands', 'setup']
const PROVIDER_KEYS = ['kind', 'name', 'api', 'config', 'create', 'check']
const COMMAND_KEYS = ['name', 'summary', 'usage', 'help', 'flags', 'words', 'failure', 'verbatim', 'standalone', 'run']

function pluginProblem(plugin: Fields): string | undefined {
  const { name, api, database, needs, wants, config, migrations, commands, setup } = plugin
  if (typeof name !== 'string' || !NAME.test(name)) return unnamed(name)
  if (CORE_SERVICES.includes(name)) return `"${name}" has the name of a service of the core`
  const general = apiProblem(api) ?? unknownKey(plugin, PLUGIN_KEYS)
  if (general !== undefined) return `"${name}" ${general}`
  if (typeof setup !== 'function') return `"${name}" has no function "setup"`
  if (database !== undefined && database !== false) return `"${name}" has a "database" other than false`
  if (database === false && (isNames(needs) ? (needs as string[]).includes('data') : false))
    return `"${name}" has "database": false and needs "data"`
  if (database === false && migrations !== undefined) return `"${name}" has "database": false and migrations`
  if (needs !== undefined && !isNames(needs)) return `"${name}" has "needs" that are not a list of names`
  if (wants !== undefined && !isNames(wants)) return `"${name}" has "wants" that are not a list of names`
  const listed = Array.isArray(migrations) && migrations.every(isMigration)
  if (migrations !== undefined && typeof migrations !== 'function' && !listed)
    return `"${name}" has "migrations" that are not a list of {id, sql}`
  if (commands !== undefined && !(Array.isArray(commands) && commands.every(isCommand)))
    return `"${name}" has "commands" that are not a list of {name, summary, usage, help, run}`
  for (const command of (commands ?? []) as readonly Fields[]) {
    const unknown = unknownKey(command, COMMAND_KEYS)
    if (unknown !== undefined) return `"${name}" has a command "${String(command['name'])}" that ${unknown}`
  }
  return configProblem(name, config)
}

function providerProblem(provider: Fields, wanted: string): string | undefined {
  const { kind, name, api, config, create, check } = provider
  if (typeof name !== 'string' || !NAME.test(name)) return unnamed(name)
  const general = apiProblem(api) ?? unknownKey(provider, PROVIDER_KEYS)
  if (general !== undefined) return `"${name}" ${general}`
  if (kind !== wanted) return `"${name}" is of kind "${String(kind)}", not "${wanted}"`
  if (typeof create !== 'function') return `"${name}" has no function "create"`
  if (check !== undefined && typeof check !== 'function') return `"${name}" has a "check" that is not a function`
  return configProblem(name, config)
}

const unnamed = (name: unknown): string =>
  `has no name of lower case letters, digits and hyphens${typeof name === 'string' ? `: "${name}"` : ''}`

/** Names a key that an object must not have, which may be a misspelt one. */
export function unknownKey(object: object, known: readonly string[]): string | undefined {
  const unknown = Object.keys(object).find((key) => !known.includes(key))
  return unknown === undefined ? undefined : `has the unknown key "${unknown}"${didYouMean(unknown, known)}`
}

function configProblem(name: string, config: unknown): string | undefined {
  if (config === undefined || (isObject(config) && config['type'] === 'object')) return undefined
  return `"${name}" has a "config" that is not a JSON schema of type object`
}

function isMigration(value: unknown): boolean {
  return isObject(value) && typeof value['id'] === 'string' && typeof value['sql'] === 'string'
}

function isCommand(value: unknown): boolean {
  if (!isObject(value) || typeof value['name'] !== 'string' || !NAME.test(value['name'])) return false
  const texts = ['summary', 'usage', 'help'].every((key) => typeof value[key] === 'string')
  const { flags = {}, run } = value
  const kinds =
    isObject(flags) && Object.values(flags).every((kind) => ['boolean', 'string', 'list'].includes(kind as string))
  return texts && kinds && typeof run === 'function'
}
