import { resolve } from 'node:path'
import type pg from 'pg'
import { version } from '../host/version.js'
import { findAll, report } from './check.js'
import { embeddedDatabase, NO_DATABASE, withConnection } from './command-database.js'
import { type Invocation, pathIn } from './invocation.js'
import { type Finding, grantsFor } from './rights.js'
import { readSections } from './read-sections.js'

const SHOWN = 5

/** Prints the environment and suggests improvements. */
export async function doctor(invocation: Invocation): Promise<number> {
  const { flags, cwd, print } = invocation
  if (flags['json'] === true) return doctorJson(invocation)
  const { dataDir, database } = (await readSections(invocation)).values
  if (flags['grants'] === true) {
    if (database.url === undefined) throw new Error(NO_DATABASE)
    print(await grantsFor(database))
    return 0
  }
  print(`rowhouse ${version}, Node ${process.versions.node} on ${process.platform} ${process.arch}`)
  if (database.url === undefined) await showEmbedded(pathIn(cwd, dataDir), print)
  else print(`data directory: ${resolve(cwd, dataDir)}`)

  const findings = database.url === undefined ? [] : [...(await findAll(invocation)), ...(await harden(database.url))]
  return report(findings, invocation)
}

/** Prints the state of the database in the data directory, which `rowhouse dev` uses. */
async function showEmbedded(dataDir: string, print: Invocation['print']): Promise<void> {
  const state = await (await embeddedDatabase()).inspect(dataDir)
  const { binaries } = state
  print(
    `data directory: ${state.dataDir}${state.cluster ? ` (PostgreSQL ${state.cluster.major} in ${state.cluster.folder})` : ' (no database yet)'}`,
  )
  print(
    'problem' in binaries
      ? `no embedded PostgreSQL: ${binaries.problem}`
      : `embedded PostgreSQL: ${binaries.version} in ${binaries.bin}`,
  )
  if (state.heldBy) print(`in use by the Rowhouse with process id ${state.heldBy.pid}`)
  if (state.orphans.length > 0) {
    print('files left over from deleted data directories; delete them if you do not need them:')
    for (const folder of state.orphans.slice(0, SHOWN)) print(`  ${folder}`)
    if (state.orphans.length > SHOWN) print(`  and ${state.orphans.length - SHOWN} more`)
  }
  print('no DATABASE_URL: rowhouse dev uses the database of the data directory')
}

/** Prints the findings as JSON, those about the configuration included. */
async function doctorJson(invocation: Invocation): Promise<number> {
  const findings = [...(await findAll(invocation))]
  const { dataDir, database } = await readSections(invocation).then(
    ({ values }) => values,
    () => NO_VALUES,
  )
  if (database.url !== undefined) findings.push(...(await harden(database.url)))
  const platform = `${process.platform} ${process.arch}`
  return report(findings, invocation, { version, node: process.versions.node, platform, data_dir: dataDir })
}

/** Of a configuration with mistakes, which are findings. */
const NO_VALUES: { readonly dataDir?: string; readonly database: { readonly url?: string } } = { database: {} }

/** Advises on unneeded privileges of the login. These findings are not errors. */
async function harden(url: string): Promise<readonly Finding[]> {
  const ask = (client: pg.Client) =>
    client.query<{ superuser: boolean; files: boolean; encrypted: boolean; local: boolean }>(
      `select rolsuper as superuser, pg_catalog.pg_has_role(current_user, 'pg_read_server_files', 'member') as files,
         coalesce((select ssl from pg_stat_ssl where pid = pg_catalog.pg_backend_pid()), false) as encrypted,
         coalesce(pg_catalog.inet_client_addr() << '127.0.0.0/8', true) as local
       from pg_catalog.pg_roles where rolname = current_user`,
    )
  try {
    const { rows } = await withConnection(url, 'doctor', ask)
    const advice = [
      rows[0]?.superuser &&
        'the login is a superuser: run_sql can read files on the database server; use a dedicated login',
      !rows[0]?.superuser &&
        rows[0]?.files &&
        'the login can read files on the database server: revoke pg_read_server_files',
      !rows[0]?.encrypted && !rows[0]?.local && 'the connection is not encrypted: add sslmode=verify-full to the URL',
    ]
    return advice.flatMap((text) => (text ? [{ ok: true, note: true, text }] : []))
  } catch {
    // A finding says why there is no connection.
    return []
  }
}
