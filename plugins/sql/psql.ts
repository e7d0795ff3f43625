import { spawn } from 'node:child_process'
import pg from 'pg'
import { announce, type CommandContext } from 'rowhouse'

/** Runs psql in the database. Running servers then read the database again. @returns the exit code of psql */
export async function sql(context: CommandContext): Promise<number> {
  const { words, terminal, env, databaseUrl, tell } = context
  // Stops at the first error unless somebody types. Arguments of the caller win.
  const args = terminal.stdin.isTTY && words.length === 0 ? [] : ['-v', 'ON_ERROR_STOP=1', ...words]
  const code = await runPsql(args, { ...withoutOthers(env), ...connectionOf(await databaseUrl()) }, context)
  if (code === NO_CONNECTION) return code
  await tellServers(context).catch((error: Error) =>
    tell(`running servers do not read the tables again: ${error.message}`),
  )
  return code
}

async function tellServers({ connect }: CommandContext): Promise<void> {
  const client = await connect()
  const { rows } = await client.query<{ writable: boolean }>(WRITABLE)
  if (rows[0]?.writable) await announce(client)
}

async function runPsql(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  { terminal, cwd }: CommandContext,
): Promise<number> {
  const { stdin, stdout, stderr } = terminal
  // Ctrl-C cancels a query of psql and must not end this process before psql.
  process.on('SIGINT', ignore)
  return new Promise<number>((resolve, reject) => {
    const stdio = [stdin, stdout, stderr].map((stream) => ('fd' in stream ? stream : 'pipe'))
    const child = spawn('psql', args, { stdio, cwd, env })
    // Streams of JavaScript, which another program cannot use.
    child.stdin?.on('error', ignore)
    if (child.stdin) stdin.pipe(child.stdin)
    child.stdout?.pipe(stdout, { end: false })
    child.stderr?.pipe(stderr, { end: false })
    child.once('error', (error: NodeJS.ErrnoException) => reject(error.code === 'ENOENT' ? new Error(MISSING) : error))
    child.once('close', (code) => resolve(code ?? 1))
  }).finally(() => process.off('SIGINT', ignore))
}

const ignore = () => {}
const NO_CONNECTION = 2
const MISSING = `psql is not installed: apt install postgresql-client, apk add postgresql-client, or brew install libpq.
Without it, the page SQL of the console runs statements.`
/** Whether the database has metadata, which servers read again when its version changes. */
const WRITABLE = `select pg_catalog.to_regclass('svc_catalog.svc_version') is not null
  and pg_catalog.current_setting('transaction_read_only') = 'off' as writable`

/** Variables that would choose another database. */
const OTHERS = ['PGSERVICE', 'PGHOSTADDR']
const withoutOthers = (env: CommandContext['env']) =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !OTHERS.includes(name)))

/** Parameters of connection URLs, and the variables of psql for them. */
const PARAMETERS = {
  application_name: 'PGAPPNAME',
  connect_timeout: 'PGCONNECT_TIMEOUT',
  options: 'PGOPTIONS',
  sslcert: 'PGSSLCERT',
  sslkey: 'PGSSLKEY',
  sslmode: 'PGSSLMODE',
  sslrootcert: 'PGSSLROOTCERT',
  target_session_attrs: 'PGTARGETSESSIONATTRS',
}

/** Returns the environment that connects psql. Other users can see the arguments of a process, so these have no password. */
function connectionOf(url: string): Readonly<Record<string, string>> {
  // Only psql knows URLs of several hosts: postgresql://user@a:5432,b:5433/shop
  const [, before = '', list = '', after = ''] = /^([^/]*:\/\/(?:[^@/?#]*@)?)([^/?#]*)(.*)$/.exec(url) ?? []
  const hosts = (before === '' ? [url] : list.split(',').map((host) => before + host + after)).map(
    (connectionString) => new pg.Client({ connectionString }),
  )
  const { user, database, password } = hosts[0]!
  const given = new URLSearchParams(url.split('?')[1])
  // A mode of the driver alone.
  if (given.get('sslmode') === 'no-verify') given.set('sslmode', 'require')
  const parameters = Object.entries(PARAMETERS).map(([name, variable]) => [variable, given.get(name)])
  return Object.fromEntries(
    [
      ...parameters,
      ['PGHOST', hosts.map(({ host }) => host).join()],
      ['PGPORT', hosts.map(({ port }) => port).join()],
      ['PGUSER', user],
      ['PGDATABASE', database],
      ['PGPASSWORD', password],
    ].filter(([, value]) => typeof value === 'string' && value !== ''),
  ) as Record<string, string>
}
