import { spawn } from 'node:child_process'
import pg from 'pg'
import { withDatabase } from './builtins.js'
import { hostUrls } from '../db/hosts.js'
import { withConnection } from './command-database.js'
import type { Invocation, Terminal } from './invocation.js'
import { runFile, runText } from './run-script.js'
import { openPrompt, printable, showIn } from './sql-prompt.js'

/** Runs a text or a file of SQL, or opens psql or a prompt. */
export async function sql(invocation: Invocation): Promise<number> {
  const { flags, words, cwd, tell, terminal } = invocation
  const [file] = words
  const text = flags['command']
  if (text !== undefined && file !== undefined) throw new Error('expected either --command or a file')
  const { stdout } = terminal
  // A reader of the output may stop early, as head does.
  stdout.on('error', ignore)
  return withDatabase(invocation, async (configured, { database }) => {
    const url = database.directUrl ?? configured
    const code = text === undefined && file === undefined ? await runPsql(url, terminal) : undefined
    if (code !== undefined) return code
    return withConnection(url, 'sql', async (client) => {
      client.on('notice', ({ severity, message }) => tell(`${severity ?? 'NOTICE'}: ${printable(message ?? '')}`))
      if (file === undefined && text === undefined) return openPrompt(client, invocation)
      if (file !== undefined) await runFile(client, file, { cwd, ...showIn(invocation) })
      else await runText(client, String(text), showIn(invocation))
      return 0
    })
  }).finally(() => stdout.off('error', ignore))
}

const ignore = () => {}

/** Runs psql, which stops at the first error unless somebody types. @returns its exit code; undefined when it is not installed */
async function runPsql(url: string, { stdin, stdout, stderr, env, cwd }: Terminal): Promise<number | undefined> {
  const stdio = [stdin, stdout, stderr]
  // psql cannot use streams of JavaScript.
  if (!stdio.every((stream) => 'fd' in stream)) return undefined
  // Ctrl-C cancels a query of psql and must not end this process before psql.
  process.on('SIGINT', ignore)
  return new Promise<number | undefined>((resolve, reject) => {
    const args = stdin.isTTY ? [] : ['-v', 'ON_ERROR_STOP=1']
    const child = spawn('psql', args, { stdio, cwd, env: psqlEnvironment(url, env) })
    child.once('error', (error: NodeJS.ErrnoException) =>
      error.code === 'ENOENT' ? resolve(undefined) : reject(error),
    )
    child.once('exit', (code) => resolve(code ?? 1))
  }).finally(() => process.off('SIGINT', ignore))
}

/** Variables that would choose another database. */
const OTHERS = ['PGSERVICE', 'PGHOSTADDR']
const OPTIONS = {
  application_name: 'PGAPPNAME',
  connect_timeout: 'PGCONNECT_TIMEOUT',
  target_session_attrs: 'PGTARGETSESSIONATTRS',
}

/** Returns the environment of psql. Other users can see the arguments of a process, so they contain no password. */
function psqlEnvironment(url: string, given: Terminal['env']): NodeJS.ProcessEnv {
  const env = Object.fromEntries(Object.entries(given).filter(([name]) => !OTHERS.includes(name)))
  const hosts = hostUrls(url).map((connectionString) => new pg.Client({ connectionString }))
  const { user, database, password } = hosts[0]!
  const first = hostUrls(url)[0]
  const options = URL.canParse(first) ? Object.fromEntries(new URL(first).searchParams) : {}
  for (const name of ['sslmode', 'sslcert', 'sslkey', 'sslrootcert', 'options']) {
    if (options[name] !== undefined) env[`PG${name.toUpperCase()}`] = options[name]
  }
  for (const [name, variable] of Object.entries(OPTIONS)) if (options[name]) env[variable] = options[name]
  return {
    ...env,
    PGHOST: hosts.map(({ host }) => host).join(),
    PGPORT: hosts.map(({ port }) => port).join(),
    PGUSER: user,
    PGDATABASE: database,
    ...(typeof password === 'string' ? { PGPASSWORD: password } : {}),
  }
}
