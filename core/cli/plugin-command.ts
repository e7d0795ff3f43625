import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { type Database, openDatabase, withClient } from '../db/database.js'
import { directProblem } from '../db/unreachable.js'
import { asPlugin } from '../host/check-shape.js'
import { ConfigError } from '../host/config.js'
import type { Builtins, Loaded } from '../host/load.js'
import { pendingMigrations } from '../host/migrate.js'
import type { CommandContext, Plugin, PluginCommand } from '../host/plugin.js'
import { createProviders } from '../host/providers.js'
import { type Config, loadServer, migrationSets, type ServerOptions } from '../host/server.js'
import { createLogger } from '../observe/log.js'
import { createMetrics } from '../observe/metrics.js'
import { commandDatabase, connectTo } from './command-database.js'
import { adminSecretFor } from './admin-secret.js'
import { builtins } from './builtins.js'
import type { ConfigSource, Invocation } from './invocation.js'
import { listedCommands } from './listed-commands.js'
import { runningServer, temporaryServer } from './temporary-server.js'
import { readSections, source } from './read-sections.js'

/** A command of a plugin, and the function that runs it. */
export interface FoundCommand {
  readonly plugin: string
  readonly command: PluginCommand
  /** @throws Error when the configuration has mistakes or does not load the plugin */
  run(given: Given): Promise<number>
}
/** The arguments of a command, where it runs, and its output functions. */
type Given = Invocation & Pick<CommandContext, 'rowhouse'>
type Options = Omit<ServerOptions, 'log' | 'address' | 'progress'>

/**
 * Returns the commands of the loaded plugins and all standalone commands. If the configuration is invalid, returns
 * those of the built-in plugins.
 */
export async function pluginCommands(
  options: CommandOptions,
): Promise<readonly Pick<PluginCommand, 'name' | 'summary'>[]> {
  const { optional = {} } = options.builtins
  const tools = listedCommands().filter(({ plugin, standalone }) => standalone && Object.hasOwn(optional, plugin))
  return [...(await configuredCommands(options)).map(({ command }) => command), ...tools]
}

async function configuredCommands(options: CommandOptions): Promise<readonly FoundCommand[]> {
  try {
    return await loadedCommands(options)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return builtinCommands(options.builtins.plugins, () => Promise.reject(error))
  }
}

/**
 * Finds a command, even of a plugin that the configuration does not load; running that one fails with an explanation.
 */
export async function findPluginCommand(name: string, options: CommandOptions): Promise<FoundCommand | undefined> {
  const { plugins, optional = {} } = options.builtins
  const isIt = ({ command }: FoundCommand) => command.name === name
  const listed = listedCommands().filter((command) => command.name === name)
  const all = Object.entries({ ...plugins, ...optional })
  const urls = Object.fromEntries(all.filter(([key]) => listed.some(({ plugin }) => plugin === key)))
  const isTool = listed.some(({ plugin, standalone }) => standalone && Object.hasOwn(optional, plugin))
  const found = isTool ? undefined : (await configuredCommands(options)).find(isIt)
  return found ?? (await builtinCommands(urls, notLoaded)).find(isIt)
}

async function notLoaded(plugin: string, name: string): Promise<never> {
  throw new Error(`${name} is a command of the plugin "${plugin}", which the configuration does not load`)
}

/** Returns the commands of all loaded plugins. @throws ConfigError */
export async function loadedCommands(options: Options): Promise<readonly FoundCommand[]> {
  const parts = await loadServer(options)
  return parts.loaded.plugins.flatMap(({ plugin, config }) =>
    (plugin.commands ?? []).map((command) => ({
      plugin: plugin.name,
      command,
      run: (given) =>
        withContext(command, { ...parts, plugin }, given, (context) => command.run(context, config as never)),
    })),
  )
}

type CommandOptions = Options & { readonly builtins: Builtins }

/** Reads the options that decide which plugins to load, before the command is known. */
export function optionsOf(args: readonly string[], { env, cwd, logTo }: Omit<ConfigSource, 'flags'>): CommandOptions {
  const { values } = parseArgs({
    args: [...args],
    options: { config: { type: 'string' } },
    strict: false,
    allowPositionals: true,
  })
  // Only rowhouse dev loads the sample shop, but its command is for every server.
  return { ...source({ flags: { config: values.config }, env, cwd, logTo }), builtins: builtins({ sample: true }) }
}

async function builtinCommands(
  urls: Readonly<Record<string, URL>>,
  refuse: (plugin: string, command: string) => Promise<never>,
): Promise<readonly FoundCommand[]> {
  const all = Object.values(urls).map(async (url): Promise<readonly FoundCommand[]> => {
    const shaped = asPlugin(((await import(url.href)) as { readonly default: unknown }).default)
    if (!shaped.ok) return []
    const { name, commands = [] } = shaped.value
    return commands.map((command) => ({
      plugin: name,
      command,
      run: (given) =>
        command.standalone
          ? withContext(command, undefined, given, (context) => command.run(context, undefined))
          : refuse(name, command.name),
    }))
  })
  return (await Promise.all(all)).flat()
}

interface Parts {
  readonly config: Config
  readonly loaded: Loaded
  readonly plugin: Plugin
}

/** Opens what a command uses, on first use, and always closes it. @param parts undefined for a standalone command */
async function withContext(
  { name }: PluginCommand,
  parts: Parts | undefined,
  given: Given,
  run: (context: CommandContext) => Promise<number>,
): Promise<number> {
  const log = createLogger({ level: 'error', destination: given.logTo })
  const opened: { close(): Promise<unknown> }[] = []
  const closed = <T extends { close(): Promise<unknown> }>(made: T): T => (opened.push(made), made)
  const values = once(async () => parts?.config.values ?? (await readSections(given)).values)
  const place = once(async () => {
    const { database, dataDir } = await values()
    return closed(await commandDatabase(database.url, resolve(given.cwd, dataDir), given))
  })
  const direct = async () => (await values()).database.directUrl ?? (await place()).url
  const database = once(async () => {
    if (parts?.plugin.database === false) throw new Error(withoutDatabase(parts.plugin))
    const { url } = await place()
    const made = closed(openDatabase({ ...(await values()).database, url }, log, createMetrics()))
    if (parts) await mustBeMigrated(made, parts)
    return made
  })
  const server = once(async () => closed(await temporaryServer((await place()).url, given)))
  const providers =
    parts &&
    closed(
      createProviders(parts.loaded.providers, {
        log,
        timeoutMs: STEP_MS,
        dataDir: resolve(given.cwd, parts.config.values.dataDir),
      }),
    )
  try {
    return await run({
      ...given,
      get signal() {
        return given.terminal.signal
      },
      async query<Row extends object>(text: string, rowValues: readonly unknown[] = []) {
        const { main } = await database()
        return withClient(main, async (client) => (await client.query<Row>(text, [...rowValues])).rows)
      },
      async ask(type, args, options = {}) {
        const { server: url, ...more } = options
        if (url === undefined) return (await server()).ask(type, args, more)
        return runningServer(url, await adminSecretFor(url, given))(type, args, more)
      },
      databaseUrl: direct,
      async connect() {
        const { directUrl } = (await values()).database
        const setting = directUrl === undefined ? 'database.url' : 'database.directUrl'
        const client = await connectTo(await direct(), name, { setting })
        closed({ close: () => client.end().catch(() => {}) })
        return client
      },
      provider: async (kind, name) => {
        if (!providers) throw new Error('a standalone command has no providers')
        return providers.get(kind, name)
      },
      providerName: (kind) => providers?.defaultName(kind),
      providerNames: (kind) => providers?.names(kind) ?? [],
    })
  } finally {
    for (const each of opened.toReversed()) await each.close()
  }
}

/** Returns a function that calls `make` once, and returns its result each time. */
function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined
  return () => (made ??= make())
}

const withoutDatabase = ({ name }: Plugin): string =>
  `plugin "${name}" has "database": false, so its commands cannot use query`

const STEP_MS = 30_000

async function mustBeMigrated(database: Database, { loaded, plugin: { name } }: Parts): Promise<void> {
  const client = await database.connect('command').catch((cause: unknown) => {
    throw directProblem(database.config, cause)
  })
  try {
    const sets = migrationSets(loaded).filter(({ owner }) => owner === 'core' || owner === name)
    const [pending] = await pendingMigrations(client, sets)
    if (!pending) return
    const step = `${pending.owner} ${pending.id}`
    throw new Error(`the database is not up to date (${step} has not run): run rowhouse upgrade, or start the server`)
  } finally {
    await client.end()
  }
}
