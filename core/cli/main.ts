import { Console } from 'node:console'
import { parseArgs, type ParseArgsConfig } from 'node:util'
import { nearest } from '../wording.js'
import { messageOf } from '../errors.js'
import type { PluginCommand } from '../host/plugin.js'
import { version } from '../host/version.js'
import type { COMMAND_NAMES } from './builtins.js'
import { hasOwnPlugins, listedCommands } from './listed-commands.js'
import type { Invocation, Terminal } from './invocation.js'

type Options = NonNullable<ParseArgsConfig['options']>

interface Command extends Pick<PluginCommand, 'usage' | 'summary' | 'help' | 'failure' | 'verbatim'> {
  readonly options: Options
  /** Maximum number of positional arguments. */
  readonly words: number
  /** Runs the command. Imports its code on demand. @returns the exit code */
  run(invocation: Invocation): Promise<number>
}

const config = { type: 'string' } as const
const flag = { type: 'boolean' } as const
const CONFIG_HELP =
  '  --config FILE   configuration file (default: rowhouse.config.js, .mjs, .cjs, .ts, .mts or .json in this folder)'
const LISTEN_HELP =
  '  --host H        address to listen on\n  --port N        port to listen on; 0 picks a free port (default 8080)'

const COMMANDS: Readonly<Record<(typeof COMMAND_NAMES)[number], Command>> = {
  init: {
    usage: 'rowhouse init',
    summary: 'create the files of a project in this folder',
    help: `Writes rowhouse.config.mjs and .gitignore, and adds scripts to package.json: dev, start, check, migrate,
metadata:export and metadata:apply. Keeps all files and scripts that exist.`,
    options: {},
    words: 0,
    run: async (invocation) => (await import('./init.js')).init(invocation),
  },
  dev: {
    usage: 'rowhouse dev [DATABASE_URL] [--port N] [--host H] [--no-sample] [--watch] [--config FILE] [--verbose]',
    summary: 'start a development server with an embedded PostgreSQL',
    help: `Starts PostgreSQL in the data directory, unless DATABASE_URL is given, and a server on 127.0.0.1.
The first start of the embedded PostgreSQL loads a sample shop; rowhouse sample remove takes it out. Ctrl-C stops both; a second Ctrl-C stops immediately.

${LISTEN_HELP}
  --no-sample     start with an empty database
  --watch         restart when the configuration, or a plugin or provider named by a path, changes
${CONFIG_HELP}
  --verbose       log every request`,
    options: { port: config, host: config, 'no-sample': flag, watch: flag, config, verbose: flag },
    words: 1,
    run: async (invocation) =>
      invocation.flags['watch'] === true
        ? (await import('./watch.js')).watch(invocation)
        : (await import('./dev.js')).dev(invocation),
  },
  start: {
    usage: 'rowhouse start [--processes N] [--port N] [--host H] [--config FILE]',
    summary: 'start a production server',
    help: `Requires DATABASE_URL (or database.url in the configuration) if any plugin uses the database, and an authentication
method such as ROWHOUSE_ADMIN_SECRET or auth.jwt. Logs JSON lines to standard error. SIGTERM finishes in-flight
requests and stops the server.

With --processes, several processes share the port and the connections to the database. Those that end are replaced.
SIGHUP reads the configuration again: it replaces all processes, one after the other, without failing a request.

  --processes N   number of processes, or auto for as many as this machine has cores and memory for
${LISTEN_HELP}
${CONFIG_HELP}`,
    options: { processes: config, port: config, host: config, config },
    words: 0,
    run: async (invocation) => (await import('./start.js')).start(invocation),
  },
  worker: {
    usage: 'rowhouse worker [--port N] [--host H] [--config FILE]',
    summary: 'send queued messages and clean up, without serving requests',
    help: `Does the work of a server that no request asks for: it sends queued messages, deletes what has expired, and verifies
stored files. Servers with plugins.notify.queue.concurrency 0 leave the sending to it.

  --port N        also answer /healthz, /readyz and /metrics on this port
  --host H        address for --port (default 127.0.0.1)
${CONFIG_HELP}`,
    options: { port: config, host: config, config },
    words: 0,
    run: async (invocation) => (await import('./start.js')).worker(invocation),
  },
  upgrade: {
    usage: 'rowhouse upgrade [--dry-run] [--json] [--config FILE]',
    summary: 'update the schema svc_catalog',
    help: `A server also does so when it starts, if its login may.

  --dry-run       list the migrations without running them
  --json          print what was done as JSON
${CONFIG_HELP}`,
    options: { 'dry-run': flag, json: flag, config },
    words: 0,
    run: async (invocation) => (await import('./upgrade.js')).upgrade(invocation),
  },
  check: {
    usage: 'rowhouse check [--processes N] [--json] [--config FILE]',
    summary: 'check the configuration and the database',
    help: `Reports all mistakes together and exits with 1 if there are any. Changes nothing. Checks for rowhouse start, so it
ignores the secret and the database that rowhouse dev creates.

  --processes N   count the connections of this many processes, as rowhouse start takes it
  --json          print the result as JSON
${CONFIG_HELP}`,
    options: { processes: config, json: flag, config },
    words: 0,
    run: async (invocation) => (await import('./check.js')).check(invocation),
  },
  doctor: {
    usage: 'rowhouse doctor [--grants | --json] [--processes N] [--config FILE]',
    summary: 'show the environment and suggest improvements',
    help: `Runs all checks of rowhouse check, and shows the machine, the data directory and the privileges of the database login.

  --grants        print SQL that grants the login what a server needs, and nothing else
  --processes N   count the connections of this many processes, as rowhouse start takes it
  --json          print the result as JSON
${CONFIG_HELP}`,
    options: { grants: flag, processes: config, json: flag, config },
    words: 0,
    run: async (invocation) => (await import('./doctor.js')).doctor(invocation),
  },
  token: {
    usage:
      'rowhouse token --role ROLE [--user ID] [--session NAME=VALUE...] [--minutes N] [--issuer I] [--config FILE]',
    summary: 'print a token for tests, signed with a shared key of the configuration',
    help: `Signs a token with the key of auth.jwt, if that is a shared one (HS256, HS384 or HS512). Its claims are where the
configuration expects them, and the server accepts it. Other keys belong to their issuer, which signs its tokens.

  --role ROLE     the role
  --user ID       the user id, X-Service-User-Id
  --session N=V   another session variable; may be repeated
  --minutes N     time until the token expires (default 60)
  --issuer I      the issuer, if several have shared keys
${CONFIG_HELP}`,
    options: {
      role: config,
      user: config,
      session: { type: 'string', multiple: true },
      minutes: config,
      issuer: config,
      config,
    },
    words: 0,
    run: async (invocation) => (await import('./token.js')).token(invocation),
  },
}

/** Runs `rowhouse` with these arguments. @returns the exit code */
export async function main([name, ...rest]: readonly string[], terminal: Terminal): Promise<number> {
  let opened: Console | undefined
  // As with console.log, a reader that has gone is no error. Opened on demand, because Node.js makes pipes non-blocking, and
  // the log of a server may go to the same pipe.
  const lines = (): Console => (opened ??= new Console(terminal.stdout, terminal.stderr))
  const print = (text: string): void => lines().log(text)
  const tell = (text: string): void => lines().error(text)
  const misused = (message: string): number => (tell(`${message}\nrowhouse --help lists the commands.`), 2)
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    print(await overview(rest, terminal))
    return name === undefined ? 2 : 0
  }
  if (name === '--version' || name === '-v') {
    print(version)
    return 0
  }
  const command = isOwn(name) ? COMMANDS[name] : await ofPlugin(name, rest, terminal)
  if (!command) {
    return misused(`there is no command "${name}"${maybe(name, Object.keys(await summaries(rest, terminal)))}`)
  }
  const options: Options = { ...command.options, help: { type: 'boolean', short: 'h' } }
  let parsed
  try {
    parsed = command.verbatim
      ? verbatim(rest, options)
      : parseArgs({ args: [...rest], options, allowPositionals: true })
  } catch (error) {
    const wrong = /'--?([\w-]+)/.exec(messageOf(error))?.[1] ?? ''
    return misused(`rowhouse ${name}: ${messageOf(error).split('. ')[0]}${maybe(wrong, Object.keys(options), '--')}`)
  }
  if (parsed.values['help'] === true) {
    print(`${command.usage}\n\n${command.help}`)
    return 0
  }
  if (parsed.positionals.length > command.words)
    return misused(`rowhouse ${name}: too many arguments\n${command.usage}`)
  const { env, cwd, logTo } = terminal
  const more = { words: parsed.positionals, print, tell, env, cwd, logTo, terminal }
  try {
    return await command.run({ ...sorted(parsed.values), ...more })
  } catch (error) {
    tell((parsed.values['verbose'] === true && error instanceof Error && error.stack) || messageOf(error))
    return command.failure ?? 1
  }
}

/** Takes the options of the core out of the arguments of another program. */
function verbatim(
  args: readonly string[],
  options: Options,
): Pick<ReturnType<typeof parseArgs>, 'values' | 'positionals'> {
  const { tokens } = parseArgs({ args: [...args], options, strict: false, tokens: true })
  const own = new Set<number>()
  for (const token of tokens) {
    if (token.kind !== 'option' || token.rawName !== `--${token.name}` || !(token.name in options)) continue
    own.add(token.index)
    if (token.value !== undefined && !token.inlineValue) own.add(token.index + 1)
  }
  const { values } = parseArgs({ args: args.filter((_, i) => own.has(i)), options })
  return { values, positionals: args.filter((_, i) => !own.has(i)) }
}

const isOwn = (name: string): name is keyof typeof COMMANDS => Object.hasOwn(COMMANDS, name)

function sorted(values: Readonly<Record<string, unknown>>): Pick<Invocation, 'flags' | 'lists'> {
  const entries = Object.entries(values)
  return {
    flags: Object.fromEntries(entries.filter(([, value]) => !Array.isArray(value))) as Invocation['flags'],
    lists: Object.fromEntries(entries.filter(([, value]) => Array.isArray(value))) as Invocation['lists'],
  }
}

async function ofPlugin(name: string, args: readonly string[], terminal: Terminal): Promise<Command | undefined> {
  const { findPluginCommand, optionsOf } = await import('./plugin-command.js')
  const found = await findPluginCommand(name, optionsOf(args, terminal))
  if (!found) return undefined
  const { usage, summary, help, flags = {}, words = 0, failure, verbatim, standalone = false } = found.command
  const option = (type: 'boolean' | 'string' | 'list') =>
    type === 'list' ? ({ type: 'string', multiple: true } as const) : { type }
  const options = Object.fromEntries(Object.entries(flags).map(([key, type]) => [key, option(type)]))
  return {
    usage,
    summary,
    help: standalone ? help : `${help}\n${CONFIG_HELP}`,
    options: standalone ? options : { ...options, config },
    words: verbatim ? Infinity : words,
    ...(failure === undefined ? {} : { failure }),
    verbatim: verbatim === true,
    run: (invocation) => {
      const { config: file } = invocation.flags
      const same = file === undefined ? [] : [`--config=${file}`]
      return found.run({ ...invocation, rowhouse: (...args) => main([...args, ...same], terminal) })
    },
  }
}

/** Returns the summary of each command by name: first those of the core, then those of plugins. */
async function summaries(args: readonly string[], terminal: Terminal): Promise<Readonly<Record<string, string>>> {
  const others = (await othersOf(args, terminal)).map(({ name, summary }) => [name, summary] as const)
  const own = Object.entries(COMMANDS).map(([name, { summary }]) => [name, summary] as const)
  return { ...Object.fromEntries(own), ...Object.fromEntries(others), ...Object.fromEntries(own) }
}

/** Imports plugins only if a configuration may add some. */
async function othersOf(args: readonly string[], terminal: Terminal) {
  if (!hasOwnPlugins(args, terminal)) return listedCommands().filter((command) => command.default)
  const { optionsOf, pluginCommands } = await import('./plugin-command.js')
  return pluginCommands(optionsOf(args, terminal))
}

async function overview(args: readonly string[], terminal: Terminal): Promise<string> {
  const all = Object.entries(await summaries(args, terminal))
  const width = Math.max(...all.map(([{ length }]) => length))
  const lines = all.map(([name, summary]) => `  ${name.padEnd(width)}  ${summary}`)
  return `rowhouse ${version}: a backend server for PostgreSQL\n\n${lines.join('\n')}\n\nRun rowhouse COMMAND --help for details.`
}

function maybe(word: string, known: readonly string[], prefix = ''): string {
  const near = nearest(word, known)
  return near === undefined ? '' : `; did you mean ${prefix}${near}?`
}
