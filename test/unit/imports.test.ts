import { readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { posix } from 'node:path'
import t from 'tap'

interface Import {
  readonly from: string
  /** File of this repository, or name of a package. */
  readonly to: string
  /** Whether only types are taken, so that nothing is imported at run time. */
  readonly isType: boolean
}

/** What the files of a place may import. */
interface Wall {
  readonly name: string
  readonly place: RegExp
  /** Imports that the rule is about; by default all. */
  readonly about?: RegExp
  /** Of these, those that are allowed. `$1` is the group of `place`. */
  readonly may: readonly RegExp[]
  /** `too`: the rule is about types, too. By default they are free. */
  readonly types?: 'too'
}

const PUBLIC = /^rowhouse(\/(plan|queue|sentence))?$/
const OURS = /^(core|plugins|providers|test|bench)\//
const LIBRARY = /^(?!(core|plugins|providers|test|bench)\/)/

const WALLS: readonly Wall[] = [
  {
    name: 'the core knows no plugin and no provider',
    place: /^core\//,
    about: OURS,
    may: [/^core\//],
    types: 'too',
  },
  {
    name: 'plugins know the core by its public API only',
    place: /^plugins\//,
    about: /^(core|bench|test)\//,
    may: [],
    types: 'too',
  },
  {
    name: 'plugins take no values of each other',
    place: /^plugins\/([^/]+)\//,
    about: /^(plugins|providers)\//,
    may: [/^plugins\/$1\//],
  },
  {
    name: 'providers know the core by its public API only',
    place: /^providers\//,
    about: OURS,
    may: [/^providers\//],
    types: 'too',
  },
  {
    name: 'a database starts before the server, so its provider stands alone',
    place: /^providers\/database\/([^/]+)\//,
    about: /^(core|plugins|providers)\/|^rowhouse/,
    may: [/^providers\/database\/$1\//],
  },
  {
    name: 'planners run in workers, and know the plan API, parsers and compression only',
    place: /^plugins\/[^/]+\/(rows\/)?(lift|plan)(\.ts|\/)/,
    may: [/^rowhouse\/plan$/, /^plugins\/[^/]+\/(rows\/)?(lift|plan)(\.ts|\/)/, /^graphql$/, /^node:zlib$/],
  },
  {
    name: 'a known request needs no GraphQL library: only planners, the proxy and the translator of documents have it',
    place: /^(core|plugins)\/(?!graphql\/plan|stitch\/|hasura\/)/,
    about: /^graphql$/,
    may: [],
  },
  {
    name: 'plan and sql do no input and no output',
    place: /^core\/(plan|sql)\//,
    about: LIBRARY,
    may: [],
    types: 'too',
  },
  {
    name: 'http knows no engine',
    place: /^core\/http\//,
    about: /^core\/(metadata|db|compile|sql|plan|catalog|ir\.ts)/,
    may: [],
    types: 'too',
  },
]

/**
 * The rooms of a folder on their floors, from the top. A room may import those of lower floors only, also types; rooms of one
 * floor do not know each other.
 */
const FLOORS: Readonly<Record<string, readonly (readonly string[])[]>> = {
  core: [
    ['index.ts', 'cli.ts'],
    ['cli'],
    ['host'],
    ['parameters', 'inspect'],
    ['data, request.ts'],
    ['http'],
    ['metadata'],
    ['db'],
    ['observe'],
    ['processes', 'queue'],
    ['compile', 'long'],
    ['sql'],
    ['plan'],
    ['catalog'],
    ['ir.ts'],
    ['json'],
    ['answer.ts, deadline.ts, errors.ts, request-headers.ts, session.ts, wording.ts'],
  ],
  'plugins/query': [['index.ts'], ['commands'], ['review', 'bulk'], ['rows', 'metadata']],
}

const files = await sources('core', 'plugins', 'providers')
const imports = [...files].flatMap(([file, text]) => importsOf(file, text))

for (const { name, place, about, may, types } of WALLS)
  t.test(name, async (t) => {
    const here = imports.filter(({ from, isType }) => place.test(from) && (types === 'too' || !isType))
    t.ok(here.length > 0, 'there are such files')
    const wrong = here.filter(({ from, to }) => {
      const own = place.exec(from)?.[1] ?? ''
      const allowed = may.map(({ source }) => new RegExp(source.replace('$1', own)))
      return (about?.test(to) ?? true) && !allowed.some((each) => each.test(to))
    })
    t.same(wrong.map(described), [])
  })

for (const [folder, floors] of Object.entries(FLOORS))
  t.test(`imports between the rooms of ${folder} go down`, async (t) => {
    const rooms = floors.flatMap((names, level) => names.map((name) => ({ level, entries: name.split(', ') })))
    const roomOf = (file: string) => {
      const entry = file.startsWith(`${folder}/`) ? file.slice(folder.length + 1).split('/', 1)[0]! : ''
      return rooms.find(({ entries }) => entries.includes(entry))
    }
    const homeless = [...files.keys()].filter((file) => file.startsWith(`${folder}/`) && !roomOf(file))
    t.same(homeless, [], 'each file has a room')
    const climbs = ({ from, to }: Import): boolean => {
      const [here, there] = [roomOf(from), roomOf(to)]
      return here !== undefined && there !== undefined && here !== there && here.level >= there.level
    }
    t.same(imports.filter(climbs).map(described), [])
  })

t.test('no file imports itself by way of others, not even types', async (t) => {
  t.same(circles(imports), [])
})

t.test('plugins and providers import the public API by its name', async (t) => {
  const named = imports.filter(({ to }) => to.startsWith('rowhouse'))
  const isPublic = ({ to, isType }: Import) => PUBLIC.test(to) || (isType && /^rowhouse\/plugins\/[a-z]+$/.test(to))
  t.same(named.filter((each) => !isPublic(each)).map(described), [])
})

async function sources(...folders: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const names = await Promise.all(
    folders.map(async (folder) => (await readdir(folder, { recursive: true })).map((name) => `${folder}/${name}`)),
  )
  return new Map(
    names
      .flat()
      .filter((name) => /\.tsx?$/.test(name))
      .map((name) => [name, readFileSync(name, 'utf8')]),
  )
}

function importsOf(from: string, text: string): Import[] {
  const found: Import[] = []
  const add = (name: string, isType: boolean) => found.push({ from, to: targetOf(from, name), isType })
  for (const [, types, names = '', name = ''] of text.matchAll(
    /^(?:import|export)\s+(type\s)?([^'";=]*?from\s+)?'([^']+)'/gm,
  )) {
    const only = /^\{(.*)\}\s+from\s+$/s
      .exec(names)?.[1]
      ?.split(',')
      .filter((each) => each.trim() !== '')
    add(name, types !== undefined || (only?.every((each) => each.trim().startsWith('type ')) ?? false))
  }
  for (const [, type, name = ''] of text.matchAll(/(typeof\s+)?\bimport\('([^']+)'\)/g)) add(name, type !== undefined)
  return found
}

/** Returns the file that an import names. Those of a package that are not ours have the name of the package. */
function targetOf(from: string, name: string): string {
  if (!name.startsWith('.')) return name
  const path = posix.join(posix.dirname(from), name).replace(/\.js$/, '')
  return [`${path}.ts`, `${path}.tsx`].find((each) => files.has(each)) ?? path
}

/** Returns the groups of files that import each other. */
function circles(imports: readonly Import[]): string[][] {
  const graph = new Map<string, string[]>()
  for (const { from, to } of imports) graph.set(from, [...(graph.get(from) ?? []), to])
  const found: string[][] = []
  const order = new Map<string, number>()
  const low = new Map<string, number>()
  const path: string[] = []
  const visit = (file: string): void => {
    const at = order.size
    order.set(file, at)
    low.set(file, at)
    path.push(file)
    for (const to of graph.get(file) ?? []) {
      if (!order.has(to)) visit(to)
      if (path.includes(to)) low.set(file, Math.min(low.get(file)!, low.get(to)!))
    }
    if (low.get(file) !== at) return
    const circle = path.splice(path.indexOf(file))
    if (circle.length > 1) found.push(circle.toSorted())
  }
  for (const file of graph.keys()) if (!order.has(file)) visit(file)
  return found
}

function described({ from, to, isType }: Import): string {
  return `${from} imports ${isType ? 'types of ' : ''}${to}`
}
