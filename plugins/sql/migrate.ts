import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ClientBase } from 'pg'
import { announce, type CommandContext, pathIn, takeLock } from 'rowhouse'
import { type Applied, type File, OWNER, READ_APPLIED, readFiles, statesOf } from './files.js'
import { runFile } from './run-file.js'

type Task = Pick<CommandContext, 'cwd' | 'print' | 'tell'> & { readonly client: ClientBase }

/** Creates, runs, reverts or lists the migrations in a folder of SQL files. */
export async function migrate(context: CommandContext, configured: string): Promise<number> {
  const { flags, words, cwd, print, tell, rowhouse } = context
  const [action, word] = words
  const dir = String(flags['dir'] ?? configured)
  if (action === 'new') return create(dir, word, context)
  if (action !== 'up' && action !== 'down' && action !== 'status')
    throw new Error('expected new, up, down or status; rowhouse upgrade updates the schema svc_catalog')
  const count = word === undefined ? undefined : Number(word)
  if (count !== undefined && !(Number.isInteger(count) && count > 0))
    throw new Error(`"${word}" is not a number of files`)
  const files = await readFiles(dir, cwd)
  const isDry = flags['dry-run'] === true
  if (action === 'up' && !isDry) {
    const failed = await rowhouse('upgrade')
    if (failed) return failed
  }
  const task = { cwd, print, tell, client: await context.connect() }
  if (action === 'status' || isDry) {
    const isSound = await show(task, action, files, count)
    return isSound || isDry ? 0 : 1
  }
  await takeLock(task.client, tell, LOCK)
  if (action === 'down') {
    await down(task, files, count)
    return 0
  }
  if (!(await up(task, files, count))) return 0
  const file = join(dir, 'metadata.json')
  if (!existsSync(pathIn(cwd, file))) {
    print(`no ${file}: the metadata stays as it is`)
    return 0
  }
  print('applying metadata.json')
  return (await rowhouse('metadata', 'apply', file)) === 0 ? 0 : 1
}

/** Advisory lock: "migrate" in ASCII. Not the one of the schema, which a starting server waits for. */
const LOCK = BigInt('0x' + Buffer.from('migrate').toString('hex')).toString()

async function create(dir: string, name: string | undefined, { cwd, print }: CommandContext): Promise<number> {
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

async function readApplied(client: ClientBase): Promise<readonly Applied[]> {
  const { rows } = await client.query(`select pg_catalog.to_regclass('svc_catalog.svc_migration') is not null as found`)
  return rows[0].found === true ? (await client.query<Applied>(READ_APPLIED, [OWNER])).rows : []
}

/** @returns whether no file was changed or deleted after it ran */
async function show({ client, print }: Task, action: string, files: readonly File[], count?: number): Promise<boolean> {
  const applied = await readApplied(client)
  const states = statesOf(files, applied)
  if (action === 'status') for (const [id, state] of states) print(`${state}  ${id}`)
  if (action === 'up') for (const { id } of pendingOf(files, applied).slice(0, count)) print(`would apply ${id}`)
  if (action === 'down') for (const { id } of lastOf(applied, count)) print(`would revert ${id}`)
  return ![...states.values()].some((state) => state === 'changed' || state === 'missing')
}

const pendingOf = (files: readonly File[], applied: readonly Applied[]): readonly File[] =>
  files.filter(({ id }) => !applied.some((each) => each.id === id))
const lastOf = (applied: readonly Applied[], count = 1): readonly Applied[] => applied.toReversed().slice(0, count)

/** @returns whether all files have run now */
async function up(task: Task, files: readonly File[], count?: number): Promise<boolean> {
  const { client, print } = task
  const applied = await readApplied(client)
  for (const { id, checksum } of applied) {
    const file = files.find((each) => each.id === id)
    if (!file) throw new Error(`migration ${id} ran on this database, but its file is missing`)
    if (file.checksum !== checksum) throw new Error(`${file.up} was changed after it ran on this database`)
  }
  const pending = pendingOf(files, applied)
  const chosen = pending.slice(0, count)
  for (const { id, up: path, checksum } of chosen) {
    const text = 'insert into svc_catalog.svc_migration (owner, id, checksum) values ($1, $2, $3)'
    await run(task, path, () => client.query(text, [OWNER, id, checksum]))
    print(`applied ${id}`)
  }
  if (pending.length === 0) print('nothing to migrate')
  return chosen.length === pending.length
}

async function down(task: Task, files: readonly File[], count?: number): Promise<void> {
  const { client, print } = task
  const applied = await readApplied(client)
  for (const { id } of lastOf(applied, count)) {
    const path = files.find((file) => file.id === id)?.down
    if (path === undefined) throw new Error(`migration ${id} cannot be reverted: it has no file ${id}.down.sql`)
    const text = 'delete from svc_catalog.svc_migration where owner = $1 and id = $2'
    await run(task, path, () => client.query(text, [OWNER, id]))
    print(`reverted ${id}`)
  }
  if (applied.length === 0) print('nothing to revert')
}

/** Runs a file and records it in the same transaction, if it has one. Running servers then read the schema again. */
async function run({ client, cwd, tell }: Task, path: string, record: () => Promise<unknown>): Promise<void> {
  tell(`running ${path}`)
  await runFile(client, path, cwd, async () => {
    await client.query('reset role; reset all')
    await record()
    await announce(client)
  })
}
