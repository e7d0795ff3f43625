import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { ClientBase } from 'pg'
import { announce } from '../metadata/change.js'
import { inTransaction } from '../db/database.js'
import { type Applied, readRecord, record, takeLock } from '../host/migrate.js'
import { type File, OWNER, readFiles, statesOf } from '../host/migration-files.js'
import { readSections, withDatabase } from './builtins.js'
import { withConnection } from './command-database.js'
import { type Invocation, pathIn } from './invocation.js'
import { migrateAt } from './migrate.js'
import { runPluginCommand } from './plugin-command.js'
import { isTransactionControl, runFile } from './run-script.js'

type Task = Invocation & { readonly client: ClientBase }

/** Creates, runs, reverts or lists the migrations in a folder of SQL files. */
export async function migrateFiles(invocation: Invocation): Promise<number> {
  const { flags, words, cwd, print, tell } = invocation
  const [action, word] = words
  const dir = String(flags['dir'] ?? (await readSections(invocation)).values.migrationsDir)
  if (action === 'new') return create(dir, word, invocation)
  if (action !== 'up' && action !== 'down' && action !== 'status')
    throw new Error('expected new, up, down or status, or nothing to update the schema svc_catalog')
  if (flags['json'] === true) throw new Error('--json is for rowhouse migrate alone')
  const count = word === undefined ? undefined : Number(word)
  if (count !== undefined && !(Number.isInteger(count) && count > 0))
    throw new Error(`"${word}" is not a number of files`)
  const files = await readFiles(dir, cwd)
  const isDry = flags['dry-run'] === true
  return withDatabase(invocation, async (url, { database }) => {
    if (action === 'up' && !isDry) await migrateAt(url, invocation)
    const isComplete = await withConnection(database.directUrl ?? url, 'migrate', async (client) => {
      const task = { ...invocation, client }
      if (action === 'status' || isDry) return show(task, action, files, count)
      await takeLock(client, tell, LOCK)
      return action === 'up' ? up(task, files, count) : down(task, files, count)
    })
    if (action === 'status') return isComplete ? 0 : 1
    if (action === 'down' || !isComplete || isDry) return 0
    const file = join(dir, 'metadata.json')
    if (!existsSync(resolve(cwd, file))) {
      print(`no ${file}: the metadata stays as it is`)
      return 0
    }
    print('applying metadata.json')
    return runPluginCommand('metadata', { ...invocation, flags: { config: flags['config'] }, words: ['apply', file] })
  })
}

/** Advisory lock: "migrate" in ASCII. Not the one of the schema, which a starting server waits for. */
const LOCK = BigInt('0x' + Buffer.from('migrate').toString('hex')).toString()
const NO_TRANSACTION = /^--\s*rowhouse:\s*no transaction\s*$/m

async function create(dir: string, name: string | undefined, { cwd, print }: Invocation): Promise<number> {
  if (name === undefined || !/^[\w-]+$/.test(name)) throw new Error('expected a name of letters, digits, _ and -')
  const id = `${new Date().toISOString().replace(/\D/g, '').slice(0, 14)}_${name}`
  await mkdir(pathIn(cwd, dir), { recursive: true })
  for (const direction of ['up', 'down']) {
    const path = join(dir, `${id}.${direction}.sql`)
    await writeFile(pathIn(cwd, path), '', { flag: 'wx' })
    print(path)
  }
  return 0
}

/** Returns checksums by id. */
async function readApplied(client: ClientBase): Promise<ReadonlyMap<string, string>> {
  const { rows } = await client.query(`select pg_catalog.to_regclass('svc_catalog.svc_migration') is not null as found`)
  const applied: readonly Applied[] = rows[0].found === true ? await readRecord(client) : []
  const own = applied.filter(({ owner }) => owner === OWNER)
  return new Map(own.map(({ id, checksum }): [string, string] => [id, checksum]))
}

/** @returns whether no file was changed or deleted after it ran */
async function show({ client, print }: Task, action: string, files: readonly File[], count?: number): Promise<boolean> {
  const applied = await readApplied(client)
  const states = statesOf(files, applied)
  if (action === 'status') {
    for (const [id, state] of states) print(`${state}  ${id}`)
  } else if (action === 'up') {
    for (const { id } of files.filter(({ id }) => !applied.has(id)).slice(0, count)) print(`would apply ${id}`)
  } else {
    for (const id of [...applied.keys()]
      .toSorted()
      .toReversed()
      .slice(0, count ?? 1))
      print(`would revert ${id}`)
  }
  return ![...states.values()].some((state) => state === 'changed' || state === 'missing')
}

/** @returns whether all files have run now */
async function up(task: Task, files: readonly File[], count?: number): Promise<boolean> {
  const { client, print } = task
  const applied = await readApplied(client)
  for (const id of applied.keys()) {
    const file = files.find((each) => each.id === id)
    if (!file) throw new Error(`migration ${id} ran on this database, but its file is missing`)
    if (file.checksum !== applied.get(id)) throw new Error(`${file.up} was changed after it ran on this database`)
  }
  const pending = files.filter(({ id }) => !applied.has(id))
  const chosen = pending.slice(0, count)
  for (const file of chosen) {
    await run(task, file.up, () => record(client, { owner: OWNER, breaks: false, ...file }))
    print(`applied ${file.id}`)
  }
  if (pending.length === 0) print('nothing to migrate')
  return chosen.length === pending.length
}

async function down(task: Task, files: readonly File[], count = 1): Promise<boolean> {
  const { client, print } = task
  const applied = [...(await readApplied(client)).keys()].toSorted().toReversed()
  for (const id of applied.slice(0, count)) {
    const path = files.find((file) => file.id === id)?.down
    if (path === undefined) throw new Error(`migration ${id} cannot be reverted: it has no file ${id}.down.sql`)
    const text = 'delete from svc_catalog.svc_migration where owner = $1 and id = $2'
    await run(task, path, () => client.query(text, [OWNER, id]))
    print(`reverted ${id}`)
  }
  if (applied.length === 0) print('nothing to revert')
  return true
}

/** Runs a file and records it in the same transaction, if it has one. Running servers then read the schema again. */
async function run({ client, cwd, tell }: Task, path: string, done: () => Promise<unknown>): Promise<void> {
  tell(`running ${path}`)
  const [first = ''] = (await readFile(pathIn(cwd, path), 'utf8')).split('\n', 1)
  const isAlone = NO_TRANSACTION.test(first)
  const take = (statement: Parameters<typeof isTransactionControl>[0]) => {
    if (/^discard\s+all\b/i.test(statement.text)) {
      throw new Error('discard all would let another migration begin; use reset all, discard temp and the like')
    }
    if (isAlone || !isTransactionControl(statement)) return false
    throw new Error('the file is a transaction; to run it without, begin it with a line "-- rowhouse: no transaction"')
  }
  const finish = async () => {
    await client.query('reset role; reset all')
    await done()
    await announce(client)
  }
  await client.query('set statement_timeout = 0')
  if (!isAlone) {
    return inTransaction(client, async () => {
      await runFile(client, path, { cwd, take })
      await finish()
    })
  }
  await runFile(client, path, { cwd, take }).catch((error: Error) => {
    throw new Error(`${error.message}\n  The statements before it have run, and the file is not recorded.`, {
      cause: error,
    })
  })
  await inTransaction(client, finish)
}
