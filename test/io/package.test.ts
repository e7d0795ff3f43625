import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { pack } from '../system/package/tarball.js'

/** The package as `npm pack` makes it. `npm run test:system` installs it. */
const MAX_BYTES = 2_150_000
const source = fileURLToPath(new URL('../../../', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'rowhouse-pack-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const { size } = statSync(await pack(folder))
const root = join(folder, 'package')
const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) =>
  statSync(join(root, name)).isFile(),
)
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest

interface Manifest {
  readonly name: string
  readonly exports: Readonly<Record<string, string>>
  readonly dependencies: Readonly<Record<string, string>>
  readonly optionalDependencies: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
}

t.test('the package is small, and has no source maps, tests and twins', (t) => {
  const kit = reached('dist/test/kit/index.js')
  const contents = files.map((file) =>
    createHash('sha256')
      .update(readFileSync(join(root, file)))
      .digest('hex'),
  )

  t.ok(size <= MAX_BYTES, `${size} bytes are at most ${MAX_BYTES}`)
  t.same(
    files.filter((file) => /\.(map|tsbuildinfo|tgz)$|\.test\.js$/.test(file)),
    [],
  )
  t.same(
    files.filter((file) => /^dist\/test\/.*\.js$/.test(file) && !kit.has(file)),
    [],
    'of the test kit it has what rowhouse/testing needs',
  )
  t.same(
    files.filter((_, i) => contents.indexOf(contents[i] as string) !== i),
    [],
    'no file is there twice',
  )
  t.end()
})

t.test('the build makes the command executable, so that npx rowhouse works in a clone after each build', (t) => {
  t.equal(statSync(join(source, 'dist/core/cli.js')).mode & 0o777, 0o755)
  t.end()
})

t.test('the READMEs of all folders are in the package, and their links lead to files in it', (t) => {
  const readmes = ['core', 'plugins', 'providers'].flatMap((folder) =>
    readdirSync(join(source, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md'))
      .map((name) => join(folder, name)),
  )
  const dead = files
    .filter((file) => file.endsWith('.md'))
    .flatMap((file) =>
      linksOf(readFileSync(join(root, file), 'utf8'))
        .filter((link) => !isThere(normalize(join(dirname(file), link))))
        .map((link) => `${file}: ${link}`),
    )

  t.same(
    readmes.filter((file) => !files.includes(file)),
    [],
  )
  t.same(dead, [])
  t.end()
})

t.test('what files of the package import is in it, or in its dependencies', (t) => {
  const { dependencies, optionalDependencies, peerDependencies } = manifest
  const own = new Set([
    manifest.name,
    ...Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies }),
  ])
  const entries = Object.values(manifest.exports)
    .filter((path) => /^[^*]*\.js$/.test(path))
    .map(normalize)
  const types = entries.flatMap((file) => [...reached(file.replace(/\.js$/, '.d.ts'))])
  const missing = [...files.filter((file) => file.endsWith('.js')), ...new Set(types)].flatMap((file) =>
    importsOf(file)
      .filter((name) => (name.startsWith('.') ? !files.includes(targetOf(file, name)) : !isBuiltin(name)))
      .filter((name) => name.startsWith('.') || !own.has(packageOf(name)))
      .filter((name) => !file.endsWith('.d.ts') || !own.has(`@types/${packageOf(name)}`))
      .map((name) => `${file}: ${name}`),
  )

  t.same(missing, [])
  t.same(
    entries.filter((path) => !files.includes(path)),
    [],
    'the entry points are there',
  )
  t.end()
})

/** Links and pictures of Markdown, without those to other sites and within the page. */
function linksOf(markdown: string): readonly string[] {
  const text = markdown.replaceAll(/^```.*?^```/gms, '').replaceAll(/`[^`\n]*`/g, '')
  const found = [...text.matchAll(/\]\(([^()\s]+)\)/g), ...text.matchAll(/\b(?:src|href)="([^"]+)"/g)]
  return found.map(([, link = '']) => link.replace(/#.*/, '')).filter((link) => link !== '' && !/^\w+:/.test(link))
}

function isThere(path: string): boolean {
  return files.some((file) => file === path || file.startsWith(path.endsWith('/') ? path : `${path}/`))
}

/** The modules that a compiled file imports. Text in comments and templates never looks like this at the start of a line. */
function importsOf(file: string): readonly string[] {
  const text = readFileSync(join(root, file), 'utf8').replaceAll(/\/\*.*?\*\//gs, '')
  const found = [
    ...text.matchAll(/^(?:import|export)\b[^'"`;]*?from ['"]([^'"]+)['"]/gm),
    ...text.matchAll(/^import ['"]([^'"]+)['"]/gm),
    ...text.matchAll(/\bimport\(['"]([^'"]+)['"]\)/g),
  ]
  return found.map(([, name = '']) => name)
}

function targetOf(file: string, name: string): string {
  const target = normalize(join(dirname(file), name))
  return file.endsWith('.d.ts') ? target.replace(/\.js$/, '.d.ts') : target
}

function packageOf(name: string): string {
  return name.split('/', name.startsWith('@') ? 2 : 1).join('/')
}

/** The files of the build that a file imports, and itself. */
function reached(file: string, found = new Set<string>()): ReadonlySet<string> {
  if (found.has(file) || !existsSync(join(root, file))) return found
  found.add(file)
  for (const name of importsOf(file)) if (name.startsWith('.')) reached(targetOf(file, name), found)
  return found
}
