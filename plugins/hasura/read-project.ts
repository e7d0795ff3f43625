import { readdir, readFile, realpath, stat } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { parseDocument, type ScalarTag } from 'yaml'
import { isObject, type Json, type JsonObject, NO_LIMITS, NumberText, parseJson } from 'rowhouse/plan'

const MAX_FILE_BYTES = 16 * 1024 * 1024
const MAX_FILES = 20_000
const MAX_INCLUDES = 10
const MAX_DEPTH = 500

/**
 * Reads the metadata of a Hasura project: an exported file (JSON or YAML), a folder of YAML files, or a project with
 * such a folder.
 * @returns metadata with the keys of an export, such as `sources` and `allowlist`
 * @throws Error that names the file
 */
export async function readProject(place: string): Promise<JsonObject> {
  const found = await stat(place)
  if (!found.isDirectory()) return bare(await new Reader(dirname(place)).read(place))
  const root = await metadataFolder(place)
  const reader = new Reader(root)
  const metadata: JsonObject = {}
  const files = (await readdir(root)).filter((name) => /\.ya?ml$/.test(name))
  if ((await readdir(root)).includes('databases')) files.push('databases/databases.yaml')
  for (const name of files.sort()) {
    const value = await reader.read(join(root, name))
    if (value === null) continue
    const key = keyOf(name)
    // These files hold several keys of the metadata.
    if ((key === 'version' || key === 'actions') && isObject(value)) Object.assign(metadata, value)
    else metadata[key] = value
  }
  return metadata
}

/** Returns the key of the metadata that a file holds. */
function keyOf(file: string): string {
  const name = basename(file).replace(/\.ya?ml$/, '')
  if (name === 'databases') return 'sources'
  return name === 'allow_list' ? 'allowlist' : name
}

/**
 * Returns the metadata of a file: as it is, in an export (`{resource_version, metadata}`), or in a request of
 * `replace_metadata`, whose second version has it as `metadata` too.
 */
function bare(value: Json): JsonObject {
  if (!isObject(value)) throw new Error('expected an object: the metadata that Hasura exports')
  const { type, args, metadata, tables, sources } = value
  if (type === 'replace_metadata' && isObject(args)) return bare(args)
  return isObject(metadata) && tables === undefined && sources === undefined ? metadata : value
}

/** Finds the folder with the YAML files: this one, or the one that `config.yaml` names, or `metadata`. */
async function metadataFolder(place: string): Promise<string> {
  const names = await readdir(place)
  if (names.includes('databases') || names.includes('tables.yaml') || names.includes('version.yaml')) return place
  const config = names.includes('config.yaml') ? await new Reader(place).read(join(place, 'config.yaml')) : null
  const named = isObject(config) ? config['metadata_directory'] : undefined
  const folder = join(place, typeof named === 'string' ? named : 'metadata')
  const isFolder = await stat(folder).then(
    (found) => found.isDirectory(),
    () => false,
  )
  if (isFolder && inside(await realpath(place), await realpath(folder))) return folder
  throw new Error(
    `${place} contains no metadata: expected tables.yaml, databases/databases.yaml or the folder metadata`,
  )
}

const inside = (root: string, path: string): boolean => path === root || path.startsWith(root + sep)

const INCLUDE = /^!include\s+(.+)$/
const includeTag: ScalarTag = { tag: '!include', resolve: (file) => `!include ${file}` }

/** Reads files of one folder, and the files that they include. */
class Reader {
  private files = 0

  constructor(private readonly root: string) {}

  async read(file: string, includes = 0): Promise<Json> {
    const name = relative(this.root, file) || basename(file)
    if (++this.files > MAX_FILES) throw new Error(`more than ${MAX_FILES} files`)
    if (includes > MAX_INCLUDES) throw new Error(`${name}: more than ${MAX_INCLUDES} files include each other`)
    const [root, real] = await Promise.all([realpath(this.root), realpath(file)])
    if (!inside(root, real)) throw new Error(`${name} is outside of ${this.root}`)
    if ((await stat(real)).size > MAX_FILE_BYTES) throw new Error(`${name} has more than ${MAX_FILE_BYTES} bytes`)
    const value = parsed(await readFile(real, 'utf8'), name)
    return this.included(value, dirname(file), includes)
  }

  /** Replaces `!include FILE` by the contents of the file, relative to the including one. */
  private async included(value: Json, folder: string, includes: number): Promise<Json> {
    if (typeof value === 'string') {
      const file = INCLUDE.exec(value)?.[1]?.replace(/^(["'])(.*)\1$/, '$2')
      return file === undefined ? value : this.read(resolve(folder, file), includes + 1)
    }
    if (Array.isArray(value)) {
      const list: Json[] = []
      for (const each of value) list.push(await this.included(each, folder, includes))
      return list
    }
    if (!isObject(value)) return value
    const entries: [string, Json][] = []
    for (const [key, each] of Object.entries(value)) entries.push([key, await this.included(each, folder, includes)])
    return Object.fromEntries(entries)
  }
}

function parsed(text: string, name: string): Json {
  try {
    if (name.endsWith('.json')) return plain(parseJson(text, NO_LIMITS))
    const document = parseDocument(text, { intAsBigInt: true, merge: true, customTags: [includeTag] })
    const [problem] = [...document.errors, ...document.warnings]
    if (problem) throw problem
    return plain(document.toJS({ maxAliasCount: 1000 }))
  } catch (error) {
    throw new Error(`${name}: ${error instanceof RangeError ? 'is nested too deeply' : (error as Error).message}`, {
      cause: error,
    })
  }
}

/** Makes JSON of what the YAML parser returns, whose integers are bigints. */
function plain(value: unknown, depth = 0): Json {
  if (depth > MAX_DEPTH) throw new RangeError()
  if (typeof value === 'bigint') {
    const number = Number(value)
    return Number.isSafeInteger(number) ? number : new NumberText(String(value))
  }
  if (Array.isArray(value)) return value.map((each) => plain(each, depth + 1))
  if (typeof value !== 'object' || value === null || value instanceof NumberText) return (value ?? null) as Json
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, plain(each, depth + 1)]))
}
