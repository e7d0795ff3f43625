import { at } from '../errors.js'
import { isObject } from '../json/value.js'
import type { Schema } from '../json/schema.js'
import type { Shaped } from './check-shape.js'
import type { LoadedConfig } from './config.js'
import { didYouMean } from '../wording.js'
import { importUse } from './import-use.js'
import { lowerCamel, sameKey } from './key-case.js'
import { isPlain, isText, jsonOf, type Mistake, resolveSection, type Setting } from './resolve-section.js'

/** Built-in plugins and providers: modules by name, loaded only when used. */
export interface Builtins {
  /** Plugins that load unless the configuration sets them to `false`. */
  readonly plugins: Readonly<Record<string, URL>>
  /** Plugins that load when the configuration names them. */
  readonly optional?: Readonly<Record<string, URL>>
  /** Built-in plugins that are loaded by default unless the other one is disabled. */
  readonly follows?: Readonly<Record<string, string>>
  /** Commands of the command line itself, which no plugin may have. */
  readonly commands?: readonly string[]
  /** Provider modules by kind and name. */
  readonly providers: Readonly<Record<string, Readonly<Record<string, URL>>>>
  /** Default provider by kind, for kinds that the configuration does not mention. */
  readonly defaults?: Readonly<Record<string, string>>
}

/** A key of the configuration, such as `plugins.notify`, and its settings. */
export interface Entry {
  readonly key: string
  readonly path: string
  readonly value: unknown
  readonly settings: readonly Setting[]
}

/** State shared while plugins and providers load. Collects mistakes. */
export interface Loading {
  readonly config: LoadedConfig
  readonly builtins: Builtins
  readonly mistakes: Mistake[]
}

/** Returns the settings of a key, relative to it. */
export function inside(settings: readonly Setting[], key: string): readonly Setting[] {
  return settings
    .filter(({ keys: [first] }) => first !== undefined && sameKey(first, key))
    .map((setting) => ({ ...setting, keys: setting.keys.slice(1) }))
}

/** Returns the entries that the file or a setting mentions below an entry. A setting of the whole entry replaces it. */
export function children(entry: Entry, known: readonly string[]): Entry[] {
  const value = isPlain(entry.value) ? entry.value : {}
  const spellings = [...Object.keys(value), ...known]
  const heads = entry.settings.flatMap(({ keys: [first] }) => first ?? [])
  const named = heads.map((head) => spellings.find((key) => sameKey(key, head)) ?? lowerCamel(head))
  return [...new Set([...Object.keys(value), ...named])].map((key) => {
    const own = inside(entry.settings, key)
    const whole = own.findLast(({ keys }) => keys.length === 0)?.value
    return {
      key,
      path: at(entry.path, key),
      value: whole === undefined ? value[key] : isText(whole) ? jsonOf(whole) : whole,
      settings: own.filter(({ keys }) => keys.length > 0),
    }
  })
}

interface Expected<T> {
  /** Name of the entry's kind in messages: `plugin`, `sms provider`. */
  readonly what: string
  readonly builtins: Readonly<Record<string, URL>>
  readonly as: (value: unknown) => Shaped<T>
}

/**
 * Imports the plugin or provider of an entry: an object in the configuration, the module named by `use`, or the
 * built-in of the entry's name.
 * @returns the value and the URL of its module; undefined after reporting a mistake
 */
export async function importEntry<T>(
  { config, mistakes }: Loading,
  entry: Entry,
  { what, builtins, as }: Expected<T>,
): Promise<{ readonly value: T; readonly module: string | undefined } | undefined> {
  const refuse = (message: string, where = config.parts.where) =>
    void mistakes.push({ path: entry.path, message, where })
  const { use = builtins[entry.key] } = splitUse(entry)
  if (use === undefined) {
    const near = didYouMean(entry.key, Object.keys(builtins)) || '; "use" names a package or a path'
    refuse(`there is no built-in ${what} "${entry.key}"${near}`)
    return undefined
  }
  try {
    const named = typeof use === 'string' ? (builtins[use] ?? use) : use
    const isNamed = typeof named === 'string' || named instanceof URL
    const { value, module } = isNamed ? await importUse(named, config) : { value: named, module: undefined }
    const shaped = as(value)
    if (shaped.ok) return { value: shaped.value, module }
    refuse(shaped.message)
  } catch (error) {
    const { message = String(error), place }: { message?: string; place?: string } = error instanceof Error ? error : {}
    refuse(message, place)
  }
  return undefined
}

/** Separates the module of an entry from its configuration. An imported object has no configuration. */
function splitUse({ value }: Entry): { readonly use?: unknown; readonly value?: unknown } {
  if (value === undefined || value === true) return {}
  if (!isPlain(value)) return isObject(value) && !isText(value) ? { use: value } : { value }
  const { use, ...own } = value
  return { use, value: own }
}

/** Returns the checked configuration of an entry, or undefined when it has mistakes. */
export function resolveEntry(
  { config, mistakes }: Loading,
  entry: Entry,
  schema: Schema = { type: 'object', properties: {} },
) {
  const { path, settings } = entry
  const { value } = splitUse(entry)
  const resolved = resolveSection({ path, schema, value, settings, where: config.parts.where })
  if (resolved.ok) return { value: resolved.value }
  mistakes.push(...resolved.mistakes)
  return undefined
}
