import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const file = join(root, 'test/api-report.txt')
const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  exports: Readonly<Record<string, string>>
}

t.test('the package exports named modules only, and each exists', async (t) => {
  for (const [entry, path] of Object.entries(exports)) {
    t.notMatch(entry + path, '*')
    if (path.endsWith('.js')) t.ok(readFileSync(join(root, path.replace(/\.js$/, '.d.ts'))), entry)
  }
})

t.test('the public declarations are those of test/api-report.txt', async (t) => {
  const report = apiReport()
  if (process.env['UPDATE'] === '1' && report !== read(file)) {
    if (!hasNewChanges()) throw new Error('add a line to CHANGELOG.md first: the public declarations have changed')
    writeFileSync(file, report)
  }
  const how =
    'if this change is intended, add a line to CHANGELOG.md, and run UPDATE=1 node build/test/run.js build/test/unit/api-report.test.js'
  t.same(read(file).split('\n'), report.split('\n'), how)
})

t.test('the report follows names to their declarations, and to the types that these use', async (t) => {
  const report = apiReport()

  t.match(report, /\n# rowhouse\n/)
  t.match(report, /\n {2}describe as describeDatabaseError\n/, 'an export under another name')
  t.match(report, /\nexport declare function createApi\(/)
  t.match(report, /\nexport type Schema = Described</, 'a type that exported types use')
  t.notMatch(report, /\/\*\*|\* @|private /)
})

const read = (path: string): string => readFileSync(path, { encoding: 'utf8', flag: 'a+' })

/** Returns whether CHANGELOG.md has lines that it did not have when the report changed last. */
function hasNewChanges(): boolean {
  const git = (...args: readonly string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim()
  const last = git('log', '-1', '--format=%H', '--', 'test/api-report.txt')
  if (last === '') return true
  const [added = '0'] = git('diff', '--numstat', last, '--', 'CHANGELOG.md').split('\t')
  return Number(added) > 0
}

/** Lists what each entry of the package exports, then all declarations that these need. */
function apiReport(): string {
  const needed = new Map<string, Declaration>()
  const entries = Object.entries(exports).flatMap(([entry, path]) => {
    if (!path.endsWith('.js')) return []
    const names = exportsOf(join(root, path.replace(/\.js$/, '.d.ts')))
    for (const { declarations } of names) for (const each of declarations) collect(each, needed)
    const lines = names.map(({ shown }) => `  ${shown}\n`).toSorted()
    return names.length === 0 ? [] : [`# ${join('rowhouse', entry)}\n${lines.join('')}`]
  })
  const texts = [...needed.values()].map(({ name, text }) => ({ name, text }))
  const sorted = texts.toSorted((a, b) => (a.name + a.text < b.name + b.text ? -1 : 1))
  return `Public declarations. test/unit/api-report.test.ts writes this file.\n\n${entries.join('\n')}\n# Declarations\n${sorted.map(({ text }) => text).join('\n')}\n`
}

interface Declaration {
  readonly name: string
  readonly text: string
  readonly file: string
}
interface Exported {
  /** As in the list of exports: `name`, or `name as other`. */
  readonly shown: string
  readonly declarations: readonly Declaration[]
}

/** A declaration file of the compiler: its declarations by name, its imports, and its exports of other files. */
interface Module {
  readonly declarations: ReadonlyMap<string, readonly Declaration[]>
  readonly imports: ReadonlyMap<string, { readonly from: string; readonly name: string }>
  readonly exports: readonly { readonly from?: string; readonly list: string }[]
}

const modules = new Map<string, Module>()

function moduleOf(path: string): Module {
  const known = modules.get(path)
  if (known) return known
  const text = readFileSync(path, 'utf8')
    .replaceAll(/^ *\/\*\*[^]*?\*\/\n/gm, '')
    .replaceAll(/^ +private .*\n/gm, '')
  const declarations = new Map<string, Declaration[]>()
  const imports = new Map<string, { from: string; name: string }>()
  const reExports: { from?: string; list: string }[] = []
  for (const statement of text.split(/\n(?=[a-z])/)) {
    const [, kind, list = '', from] = /^(import|export) (?:type )?(\{[^]*\}|\*)(?: from '(.*)')?;/.exec(statement) ?? []
    const there = from?.startsWith('.') ? join(dirname(path), from.replace(/\.js$/, '.d.ts')) : undefined
    const [, name] =
      /^(?:export )?(?:declare )?(?:abstract )?(?:interface|type|class|function|const) (\w+)/.exec(statement) ?? []
    if (kind === 'export') reExports.push({ from: there, list })
    else if (kind === 'import' && there)
      for (const { original, shown } of namesIn(list)) imports.set(shown, { from: there, name: original })
    else if (name !== undefined)
      declarations.set(name, [...(declarations.get(name) ?? []), { name, text: statement.trimEnd(), file: path }])
  }
  const made = { declarations, imports, exports: reExports }
  modules.set(path, made)
  return made
}

const namesIn = (list: string) =>
  list
    .slice(1, -1)
    .split(',')
    .map((each) => each.trim().replace(/^type /, ''))
    .filter((each) => each !== '')
    .map((each) => {
      const [original = each, shown = original] = each.split(' as ')
      return { original, shown, each }
    })

/** Returns the named exports of a file. */
function exportsOf(path: string): readonly Exported[] {
  const { declarations, exports } = moduleOf(path)
  const own = [...declarations]
    .filter(([, [first]]) => first?.text.startsWith('export '))
    .map(([name, found]) => ({ shown: name, declarations: found }))
  const others = exports.flatMap(({ from = path, list }) =>
    list === '*'
      ? exportsOf(from)
      : namesIn(list).map(({ original, each }) => ({ shown: each, declarations: find(from, original) })),
  )
  return [...own, ...others]
}

/** Returns the declarations of a name that a file declares, imports or exports. */
function find(path: string, name: string): readonly Declaration[] {
  const { declarations, imports, exports } = moduleOf(path)
  const imported = imports.get(name)
  if (imported) return find(imported.from, imported.name)
  const own = declarations.get(name)
  if (own) return own
  for (const { from, list } of exports) {
    if (from === undefined) continue
    const as = list === '*' ? name : namesIn(list).find(({ shown }) => shown === name)?.original
    const found = as === undefined ? [] : find(from, as)
    if (found.length > 0) return found
  }
  return []
}

/** Adds a declaration, and those of all types in it. core/SETTINGS.md has the settings. */
function collect(declaration: Declaration, needed: Map<string, Declaration>): void {
  const { file, text } = declaration
  const key = `${file} ${text}`
  if (needed.has(key)) return
  needed.set(key, declaration)
  const inline = [...text.matchAll(/import\("(\.[^"]+)\.js"\)\.(\w+)/g)].flatMap(([, from = '', name = '']) =>
    find(join(dirname(file), `${from}.d.ts`), name),
  )
  const named = new Set(text.match(/\b[A-Z]\w*/g))
  for (const each of [...inline, ...[...named].flatMap((name) => find(file, name))]) collect(each, needed)
}
