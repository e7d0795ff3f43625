#!/usr/bin/env node
import { parseArgs, type ParseArgsConfig } from 'node:util'
import type { FoundCommand } from './cli/plugin-command.js'
import { nearest } from './host/did-you-mean.js'
import { version } from './version.js'

type Options = NonNullable<ParseArgsConfig['options']>

/** What a command was called with. */
export interface Invocation {
  readonly flags: Readonly<Record<string, string | boolean | undefined>>
  /** Of those that may be given more than once. */
  readonly lists: Readonly<Record<string, readonly string[]>>
  readonly words: readonly string[]
}
interface Command {
  readonly usage: string
  readonly summary: string
  readonly help: string
  readonly options: Options
  /** Most words beside the flags. */
  readonly words: number
  /** What it needs is imported when it runs. @returns the exit code */
  run(invocation: Invocation): Promise<number>
}

const config = { type: 'string' } as const
const flag = { type: 'boolean' } as const
const CONFIG_HELP = '  --config FILE   configuration file (default: rowhouse.config.js or .json in this folder)'
const LISTEN_HELP = '  --host H        address to listen on\n  --port N        port; 0 takes a free one (default 8080)'

const COMMANDS: Readonly<Record<string, Command>> = {
  dev: {
    usage: 'rowhouse dev [DATABASE_URL] [--port N] [--host H] [--no-sample] [--config FILE] [--verbose]',
    summary: 'a server for development, with a PostgreSQL of its own',
    help: `Starts a PostgreSQL in the data directory, unless DATABASE_URL names one, and the server on 127.0.0.1.
The first start on that PostgreSQL loads a sample shop. Ctrl-C stops both; pressed again, at once.

${LISTEN_HELP}
  --no-sample     start with an empty database
${CONFIG_HELP}
  --verbose       a line for every request`,
    options: { port: config, host: config, 'no-sample': flag, config, verbose: flag },
    words: 1,
    run: async (invocation) => (await import('./cli/dev.js')).dev(invocation),
  },
  start: {
    usage: 'rowhouse start [--port N] [--host H] [--config FILE]',
    summary: 'a server for production',
    help: `Needs DATABASE_URL (or database.url in the configuration), unless no plugin does, and a way for callers to prove who
they are, such as ROWHOUSE_ADMIN_SECRET or auth.jwt. Logs JSON lines to standard error. SIGTERM finishes what is under
way and ends.

${LISTEN_HELP}
${CONFIG_HELP}`,
    options: { port: config, host: config, config },
    words: 0,
    run: async (invocation) => (await import('./cli/start.js')).start(invocation),
  },
  migrate: {
    usage: 'rowhouse migrate [--dry-run] [--config FILE]',
    summary: 'bring the schema svc_catalog up to date',
    help: `A server does this itself when it starts; this is for doing it ahead.

  --dry-run       only say what would run
${CONFIG_HELP}`,
    options: { 'dry-run': flag, config },
    words: 0,
    run: async (invocation) => (await import('./cli/migrate.js')).migrateDatabase(invocation),
  },
  check: {
    usage: 'rowhouse check [--config FILE]',
    summary: 'is the configuration right, and does the database fit?',
    help: `Says every mistake at once and ends with 1 when there is one. Changes nothing. It looks with the eyes of rowhouse
start: without a secret or a database that rowhouse dev would make.

${CONFIG_HELP}`,
    options: { config },
    words: 0,
    run: async (invocation) => (await import('./cli/check.js')).check(invocation),
  },
  doctor: {
    usage: 'rowhouse doctor [--config FILE]',
    summary: 'what is where, and what could be better',
    help: `Everything that check does, and the machine, the data directory, and the rights of the database login.

${CONFIG_HELP}`,
    options: { config },
    words: 0,
    run: async (invocation) => (await import('./cli/doctor.js')).doctor(invocation),
  },
  metadata: {
    usage: 'rowhouse metadata export [FILE] | apply FILE [--dry-run] | diff FILE [--config FILE]',
    summary: 'carry tracked tables, relationships and permissions between databases',
    help: `export writes all metadata as JSON, to standard output without a FILE. apply replaces all metadata by a file's, or
changes nothing. diff says what apply would change and ends with 1 when something would.

  --dry-run       apply: only say what would change
${CONFIG_HELP}`,
    options: { 'dry-run': flag, config },
    words: 2,
    run: async (invocation) => (await import('./cli/metadata.js')).metadata(invocation),
  },
}

async function main([name, ...rest]: readonly string[]): Promise<number> {
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    console.log(await overview(rest))
    return name === undefined ? 2 : 0
  }
  if (name === '--version' || name === '-v') {
    console.log(version)
    return 0
  }
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : await ofPlugin(name, rest)
  if (!command) return misused(`there is no command "${name}"${maybe(name, Object.keys(await summaries(rest)))}`)
  const options: Options = { ...command.options, help: { type: 'boolean', short: 'h' } }
  let parsed
  try {
    parsed = parseArgs({ args: [...rest], options, allowPositionals: true })
  } catch (error) {
    const wrong = /'--?([\w-]+)/.exec(messageOf(error))?.[1] ?? ''
    return misused(`rowhouse ${name}: ${messageOf(error).split('. ')[0]}${maybe(wrong, Object.keys(options), '--')}`)
  }
  if (parsed.values['help'] === true) {
    console.log(`${command.usage}\n\n${command.help}`)
    return 0
  }
  if (parsed.positionals.length > command.words) return misused(`rowhouse ${name}: too many words\n${command.usage}`)
  try {
    return await command.run({ ...sorted(parsed.values), words: parsed.positionals })
  } catch (error) {
    console.error(parsed.values['verbose'] === true && error instanceof Error ? error.stack : messageOf(error))
    return 1
  }
}

function sorted(values: Readonly<Record<string, unknown>>): Pick<Invocation, 'flags' | 'lists'> {
  const entries = Object.entries(values)
  return {
    flags: Object.fromEntries(entries.filter(([, value]) => !Array.isArray(value))) as Invocation['flags'],
    lists: Object.fromEntries(entries.filter(([, value]) => Array.isArray(value))) as Invocation['lists'],
  }
}

async function ofPlugin(name: string, args: readonly string[]): Promise<Command | undefined> {
  const { findPluginCommand } = await import('./cli/plugin-command.js')
  const found = await findPluginCommand(name, args)
  if (!found) return undefined
  const { usage, summary, help, flags = {}, words = 0, standalone = false } = found.command
  const option = (type: 'boolean' | 'string' | 'list') =>
    type === 'list' ? ({ type: 'string', multiple: true } as const) : { type }
  const options = Object.fromEntries(Object.entries(flags).map(([key, type]) => [key, option(type)]))
  return {
    usage,
    summary,
    help: standalone ? help : `${help}\n${CONFIG_HELP}`,
    options: standalone ? options : { ...options, config },
    words,
    run: (invocation) => runOfPlugin(found, invocation),
  }
}

/** Ctrl-C lets it close what it opened; pressed again, it ends the process at once. */
async function runOfPlugin(found: FoundCommand, invocation: Invocation): Promise<number> {
  const abort = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => abort.abort(new Error('interrupted')))
  const { flags, ...more } = invocation
  return found.run(flags, { ...more, signal: abort.signal, print: console.log, tell: console.error })
}

/** Of each command by name: the core's, then those of plugins. */
async function summaries(args: readonly string[]): Promise<Readonly<Record<string, string>>> {
  const { pluginCommands } = await import('./cli/plugin-command.js')
  const others = (await pluginCommands(args)).map(({ command }) => [command.name, command.summary] as const)
  const own = Object.entries(COMMANDS).map(([name, { summary }]) => [name, summary] as const)
  return { ...Object.fromEntries(own), ...Object.fromEntries(others), ...Object.fromEntries(own) }
}

async function overview(args: readonly string[]): Promise<string> {
  const all = Object.entries(await summaries(args))
  const width = Math.max(...all.map(([{ length }]) => length))
  const lines = all.map(([name, summary]) => `  ${name.padEnd(width)}  ${summary}`)
  return `rowhouse ${version}: a backend server for PostgreSQL\n\n${lines.join('\n')}\n\nrowhouse COMMAND --help tells more.`
}

function misused(message: string): number {
  console.error(`${message}\nrowhouse --help lists the commands.`)
  return 2
}

function maybe(word: string, known: readonly string[], prefix = ''): string {
  const near = nearest(word, known)
  return near === undefined ? '' : `; did you mean ${prefix}${near}?`
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const code = await main(process.argv.slice(2))
// A timer or a connection that a plugin left does not keep the process; what was printed is out first.
process.stdout.write('', () => process.exit(code))
