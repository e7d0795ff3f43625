import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { at, messageOf } from '../errors.js'
import type { Infer, Issue, Schema } from '../json/schema.js'
import { isPlain, resolveSection, textValue, type Mistake, type Setting } from './resolve-section.js'
import { didYouMean, nearest } from '../wording.js'
import { importDefault } from './import-module.js'
import { sameKey } from './key-case.js'

/** Schemas by top-level key, defined by the owners of the sections. */
export type Sections = Readonly<Record<string, Schema>>

/** Checks beyond the schemas, by section. Each returns all mistakes in a value. */
export type Checks<S extends Sections> = { readonly [K in keyof S]?: (value: Infer<S[K]>) => readonly Issue[] }

export interface ConfigOptions<S extends Sections> {
  readonly sections: S
  readonly checks?: Checks<S>
  /** Path from the command line. Defaults to `ROWHOUSE_CONFIG`, then to `rowhouse.config.*` in `cwd`. */
  readonly file?: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Values from the command line, structured like the file. The schema decides how texts are parsed. */
  readonly overrides?: Readonly<Record<string, unknown>>
  readonly cwd: string
}

export interface LoadedConfig<S extends Sections = Sections> {
  /** Absolute path of the configuration file, if there is one. */
  readonly file: string | undefined
  /** Base folder of relative paths in the configuration: the folder of the file, or `cwd`. */
  readonly directory: string
  /** The validated and frozen sections. */
  readonly values: { readonly [K in keyof S]: Infer<S[K]> }
  /** `plugins` and `providers`. Their schemas are known only after importing what they name. */
  readonly parts: ConfigParts
}

interface ConfigParts {
  readonly plugins: unknown
  readonly providers: unknown
  /** Settings of both parts. Their first key is `plugins` or `providers`. */
  readonly settings: readonly Setting[]
  /** The file, for error messages. */
  readonly where: string
}

/** Reports all mistakes in the configuration. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'

  constructor(readonly mistakes: readonly Mistake[]) {
    const count = mistakes.length === 1 ? 'one mistake' : `${mistakes.length} mistakes`
    const lines = mistakes.map(({ path, message, where }) => `  ${path}: ${message} (${where})`)
    super([`the configuration has ${count}:`, ...lines].join('\n'))
  }
}

/**
 * Loads the configuration: schema defaults, then the file, then the environment, then `overrides`.
 * @throws ConfigError with every mistake in the sections
 */
export async function loadConfig<const S extends Sections>(options: ConfigOptions<S>): Promise<LoadedConfig<S>> {
  const { config, mistakes } = await readConfig(options)
  if (mistakes.length > 0) throw new ConfigError(mistakes)
  return config
}

/**
 * Reads the configuration like `loadConfig`, but returns the mistakes for a caller with further checks. Omits invalid
 * values.
 */
export async function readConfig<const S extends Sections>(
  options: ConfigOptions<S>,
): Promise<{
  readonly config: LoadedConfig<S>
  readonly mistakes: readonly Mistake[]
}> {
  const mistakes: Mistake[] = []
  const names = [...Object.keys(options.sections), ...PARTS]
  const file = findFile(options, mistakes)
  const directory = file === undefined ? options.cwd : dirname(file)
  const where = file ?? 'no configuration file'
  const written = file === undefined ? {} : await readWritten(file, mistakes)
  const tree = resolveSecrets(written, '$', { env: options.env, directory, where, mistakes })
  const top = isPlain(tree) ? tree : {}
  const settings = [...fromEnvironment(options.env, names, mistakes), ...fromOverrides(options.overrides ?? {})]

  for (const key of Object.keys(top))
    if (!names.includes(key))
      mistakes.push({ path: at('$', key), message: `unknown key${didYouMean(key, names)}`, where })
  const values: Record<string, unknown> = {}
  for (const [name, schema] of Object.entries(options.sections)) {
    const own = settings.filter(({ keys }) => sameKey(keys[0] ?? '', name))
    const inside = own.map((setting) => ({ ...setting, keys: setting.keys.slice(1) }))
    const check = options.checks?.[name] as ((value: unknown) => readonly Issue[]) | undefined
    const section = { path: at('$', name), schema, check, value: top[name], settings: inside, where }
    const resolved = resolveSection(section)
    if (resolved.ok) values[name] = resolved.value
    else mistakes.push(...resolved.mistakes)
  }

  const parts = { plugins: top['plugins'], providers: top['providers'], settings: settings.filter(isOfParts), where }
  const config = { file, directory, values: Object.freeze(values), parts }
  return { config: config as LoadedConfig<S>, mistakes }
}

const PARTS = ['plugins', 'providers']
const isOfParts = ({ keys }: Setting) => PARTS.some((part) => sameKey(part, keys[0] ?? ''))

const FILES = ['js', 'mjs', 'cjs', 'ts', 'mts', 'json'].map((type) => `rowhouse.config.${type}`)
/** Names that users of other tools expect to work. */
const IGNORED = /^rowhouse\.config\.(ya?ml|toml|jsonc|json5|cts|[jt]sx|ini|conf)$/i

function findFile(
  options: Omit<ConfigOptions<Sections>, 'sections' | 'checks'>,
  mistakes: Mistake[],
): string | undefined {
  const named = options.file ?? (options.env['ROWHOUSE_CONFIG'] || undefined)
  const where = options.file === undefined ? 'environment variable ROWHOUSE_CONFIG' : 'command line'
  if (named !== undefined) {
    const path = resolve(options.cwd, named)
    if (existsSync(path)) return path
    mistakes.push({ path: '$', message: `file ${path} does not exist`, where })
    return undefined
  }
  const names = existsSync(options.cwd) ? readdirSync(options.cwd) : []
  for (const name of names.filter((name) => IGNORED.test(name)))
    mistakes.push({ path: '$', message: `${name} is not read: write ${FILES.join(', ')}`, where: options.cwd })
  const [found, second] = FILES.filter((name) => names.includes(name))
  if (second !== undefined)
    mistakes.push({ path: '$', message: `${found} and ${second} both exist; keep one`, where: options.cwd })
  return found === undefined ? undefined : join(options.cwd, found)
}

async function readWritten(file: string, mistakes: Mistake[]): Promise<unknown> {
  const json = file.endsWith('.json')
  try {
    const written = json ? parseJson(await readFile(file, 'utf8')) : await importDefault(pathToFileURL(file).href)
    if (isPlain(written)) return written
    mistakes.push({
      path: '$',
      message: `must ${json ? 'contain one object' : 'export one object: export default { ... }'}`,
      where: file,
    })
  } catch (error) {
    mistakes.push({ path: '$', message: `cannot be read: ${messageOf(error)}`, where: file })
  }
  return {}
}

/** Parses JSON. The error omits the text, which may be a secret, and contains the position if known. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error(`not JSON${/ at position \d+/.exec(messageOf(error))?.[0] ?? ''}`, { cause: error })
  }
}

interface Sources {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly directory: string
  readonly where: string
  readonly mistakes: Mistake[]
}

/** Replaces every `{"$env": "NAME"}` and `{"$file": "PATH"}` with its text. Removes the last line break of a file. */
function resolveSecrets(value: unknown, path: string, sources: Sources): unknown {
  if (Array.isArray(value)) return value.map((item: unknown, i) => resolveSecrets(item, at(path, i), sources))
  if (!isPlain(value)) return value
  const [only, ...others] = Object.keys(value)
  const from = only === undefined || others.length > 0 ? undefined : value[only]
  if (only === '$env' && typeof from === 'string') {
    const text = sources.env[from]
    if (text !== undefined && text !== '') return textValue(text)
    sources.mistakes.push({ path, message: `environment variable ${from} is not set`, where: sources.where })
    return undefined
  }
  if (only === '$file' && typeof from === 'string') {
    try {
      return textValue(readFileSync(resolve(sources.directory, from), 'utf8').replace(/\r?\n$/, ''))
    } catch (error) {
      sources.mistakes.push({ path, message: `cannot be read: ${messageOf(error)}`, where: sources.where })
      return undefined
    }
  }
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, resolveSecrets(item, at(path, key), sources)]),
  )
}

/** Variables with a name outside of the scheme. `ROWHOUSE_CONFIG` names the file. */
const NAMED: Readonly<Record<string, readonly string[]>> = {
  DATABASE_URL: ['database', 'url'],
  ROWHOUSE_HOST: ['http', 'host'],
  ROWHOUSE_PORT: ['http', 'port'],
  ROWHOUSE_ADMIN_SECRET: ['auth', 'adminSecret'],
  ROWHOUSE_DATA_DIR: ['dataDir'],
}

/**
 * Reads the environment: `ROWHOUSE_A__B__C` sets `a.b.c`. Ignores empty variables, because container tools set those
 * for missing values.
 */
function fromEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  sections: readonly string[],
  mistakes: Mistake[],
): Setting[] {
  const settings: Setting[] = []
  for (const [name, keys] of Object.entries(NAMED))
    if (env[name] && sections.includes(keys[0] ?? '')) settings.push(setting(keys, env[name], name))
  for (const [name, text] of Object.entries(env).toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    if (!name.startsWith('ROWHOUSE_') || !text || name in NAMED || name === 'ROWHOUSE_CONFIG') continue
    const keys = name.slice('ROWHOUSE_'.length).split('__')
    const known = sections.some((section) => sameKey(section, keys[0] ?? ''))
    const where = `environment variable ${name}`
    if (keys.length > 1 && known) settings.push(setting(keys, text, name))
    else if (keys.length > 1)
      mistakes.push({
        path: at('$', keys[0] ?? ''),
        message: `unknown key${didYouMean(keys[0] ?? '', sections)}`,
        where,
      })
    else if (!isOfPlatform(name, text) && misspelt(name, sections) !== undefined)
      mistakes.push({ path: '$', message: `unknown variable, did you mean ${misspelt(name, sections)}?`, where })
  }
  return settings
}

const setting = (keys: readonly string[], text: string, name: string): Setting => ({
  keys,
  value: textValue(text),
  where: `environment variable ${name}`,
})

/**
 * Returns the variable that was probably meant. Ignores other variables with our prefix, because container platforms
 * define such variables for a service named rowhouse.
 */
function misspelt(name: string, sections: readonly string[]): string | undefined {
  const [section = '', ...rest] = name.slice('ROWHOUSE_'.length).split('_')
  const nested = rest.length > 0 && sections.some((each) => sameKey(each, section))
  // A single underscore instead of two.
  if (nested) return `ROWHOUSE_${section}__${rest.join('_')}`
  return nearest(name, [...Object.keys(NAMED), 'ROWHOUSE_CONFIG'])
}
/** Recognizes variables that container platforms define for the address of a service. */
const isOfPlatform = (name: string, text: string): boolean =>
  /_SERVICE_(HOST|PORT)|_PORT_\d+_/.test(name) || /^(tcp|udp):\/\//.test(text)

/** An empty object configures a provider of this name. */
const isBareProvider = (value: object, keys: readonly string[]): boolean =>
  keys.length === 2 && keys[0] === 'providers' && Object.keys(value).length === 0

function fromOverrides(overrides: Readonly<Record<string, unknown>>, keys: readonly string[] = []): Setting[] {
  return Object.entries(overrides).flatMap(([key, value]): Setting[] => {
    if (value === undefined) return []
    if (isPlain(value) && !isBareProvider(value, keys)) return fromOverrides(value, [...keys, key])
    const leaf = typeof value === 'string' ? textValue(value) : value
    return [{ keys: [...keys, key], value: leaf, where: 'command line' }]
  })
}
