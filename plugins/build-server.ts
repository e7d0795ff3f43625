import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type OnLoadArgs, type PluginBuild, transform } from 'esbuild'
import { licencesOf } from './build-licences.js'

/**
 * Bundles the program into `dist/`: few files load faster than many. All entry points are of one bundle, so that each module
 * is there once, and an error of the server is a `ServiceError` of a plugin. `npm run build` runs this.
 */
const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const OUT = `${ROOT}dist/`

/** Packages that each start loads, or that are small. A hundred of their files become part of ours. */
const INSIDE = /^(@koa\/router|croner|inflection|jose|koa|pg|pg-query-stream|pino|piscina|prom-client|ws)($|\/)/

const fromKoa = createRequire(createRequire(import.meta.url).resolve('koa')).resolve

/** The module that knows where the bundle is. */
const PLACE = 'rowhouse-place'

/** Packages that Koa loads, although few servers use them. */
const ON_DEMAND = 'on-demand'

/** What is imported by its URL, at the same place as in the source. */
const BY_URL = [
  'core/cli',
  'core/cli/build-validators',
  'core/compile/worker',
  'core/long/worker',
  'plugins/build-id',
  'plugins/filestore/plan',
  'plugins/graphql/plan/index',
  'plugins/query/rows/plan',
  'providers/database/embedded/index',
]

/**
 * Modules by what needs them together. As each module that needs one of a list imports all of it, the list becomes one file:
 * few files load faster than many.
 */
const TOGETHER: Readonly<Record<string, readonly string[]>> = {
  /** What plans a request, in the main thread and in workers. */
  'rowhouse-plan': ['core/compile/compile', 'core/compile/encoded', 'core/plan/index', 'plugins/query/rows/plan'],
  /** What a start loads. */
  'rowhouse-start': [
    'core/cli/start',
    'core/compile/pool',
    'core/host/http-front',
    'core/host/plugin-host',
    ...['console', 'events', 'filestore', 'graphql', 'history', 'live', 'notify', 'query', 'sql', 'template'].map(
      (name) => `plugins/${name}/index`,
    ),
    'providers/storage/disk',
  ],
}
/** Entry points that need only the first list. */
const WORKERS = [
  'core/compile/worker',
  'core/long/worker',
  'core/plan/index',
  'plugins/filestore/plan',
  'plugins/graphql/plan/index',
  'plugins/query/rows/plan',
]
/** Entry points that need neither. */
const ALONE = ['core/cli', 'core/cli/init', 'core/cli/token', 'plugins/query/review/rule-sentence']

const { exports } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as {
  readonly exports: Readonly<Record<string, string>>
}
const sourceOf = (exported: string): string => exported.replace('./dist/', '').replace(/\.js$/, '')
const programs = Object.values(exports).filter((path) => path.endsWith('.js'))
const entryPoints = [...programs.map(sourceOf), ...BY_URL]
const entries = new Set([...entryPoints, ...importedOnDemand()])

for (const folder of ['chunks', 'compile-cache']) rmSync(`${OUT}${folder}`, { recursive: true, force: true })
const { metafile } = await build({
  absWorkingDir: ROOT,
  entryPoints: entryPoints.map((path) => `${path}.ts`),
  outbase: ROOT,
  outdir: OUT,
  chunkNames: 'chunks/[hash]',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  sourcemap: true,
  sourcesContent: false,
  legalComments: 'none',
  minifySyntax: true,
  minifyWhitespace: true,
  lineLimit: 1000,
  logLevel: 'warning',
  metafile: true,
  // For CommonJS modules in the bundle.
  banner: {
    js: "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);",
  },
  // Node.js has it since version 21. Without it, pg loads all of fetch to find out that this is not Cloudflare.
  define: { navigator: '{"userAgent":"Node.js"}' },
  plugins: [{ name: 'rowhouse', setup: resolveOwn }],
})
writeFileSync(`${OUT}LICENSES.txt`, licencesOf(metafile))

await build({
  entryPoints: { thread: join(dirname(createRequire(import.meta.url).resolve('piscina')), 'worker.js') },
  outdir: `${OUT}chunks`,
  outExtension: { '.js': '.cjs' },
  bundle: true,
  platform: 'node',
  target: 'node20.19',
  minifySyntax: true,
  minifyWhitespace: true,
  external: ['@napi-rs/nice'],
})
writeFileSync(`${OUT}chunks/mime-db.json`, JSON.stringify(Object.fromEntries(mimeTypes())))
for (const folder of ['core/host', 'core/http']) mkdirSync(`${OUT}${folder}`, { recursive: true })
copyFileSync(`${ROOT}core/http/tokens.css`, `${OUT}core/http/tokens.css`)
await import(new URL('../core/cli/build-validators.js', import.meta.url).href)
await import(new URL('./build-id.js', import.meta.url).href)

/** Resolves `rowhouse`, leaves out packages, and keeps `import.meta.url` of each module as it is without the bundle. */
function resolveOwn({ onLoad, onResolve }: PluginBuild): void {
  onResolve({ filter: /^rowhouse($|\/)/ }, ({ path }) => {
    const target = exports[path.replace('rowhouse', '.')]
    return target === undefined ? undefined : { path: `${ROOT}${sourceOf(target)}.ts` }
  })
  onResolve({ filter: /^[^./]/ }, ({ path, resolveDir, kind }) => {
    if (kind === 'entry-point' || path === PLACE || path in TOGETHER) return undefined
    if (path !== '@opentelemetry/api' && (resolveDir.includes('node_modules') || INSIDE.test(path))) return undefined
    return { path, external: true }
  })
  onResolve({ filter: /^mime-types$/ }, ({ path, resolveDir }) =>
    resolveDir === '' ? undefined : { path: createRequire(`${resolveDir}/`).resolve(path), namespace: ON_DEMAND },
  )
  onLoad({ filter: /.*/, namespace: ON_DEMAND }, ({ path }) => ({
    contents: onDemand(path),
    resolveDir: dirname(path),
  }))
  // Koa's packages have three copies of this table.
  onLoad({ filter: /mime-db[\\/]db\.json$/ }, () => ({
    contents: `module.exports = JSON.parse(require('node:fs').readFileSync(new URL('mime-db.json', require('${PLACE}').place)))`,
    loader: 'js',
    resolveDir: ROOT,
  }))
  onLoad({ filter: /node_modules[\\/].*\.m?js$/ }, shortened)
  onResolve({ filter: new RegExp(`^${PLACE}$`) }, () => ({ path: PLACE, namespace: PLACE }))
  // In `dist/chunks/`, because more than one entry point has it.
  onLoad({ filter: /.*/, namespace: PLACE }, () => ({ contents: 'export const place = import.meta.url' }))
  for (const [name, modules] of Object.entries(TOGETHER)) {
    onResolve({ filter: new RegExp(`^${name}$`) }, () => ({ path: name, namespace: name }))
    const contents = modules.map((path) => `import './${path}.ts'`).join('\n')
    onLoad({ filter: /.*/, namespace: name }, () => ({ contents, resolveDir: ROOT }))
  }
  onLoad({ filter: /\.ts$/ }, placed)
}

/** Shortens the local names of a package. Ours stay as they are, for the stacks of errors. */
async function shortened({ path }: OnLoadArgs) {
  const text = readFileSync(path, 'utf8').replace(
    "(0, node_path_1.resolve)(__dirname, 'worker.js')",
    `new URL('thread.cjs', require('${PLACE}').place)`,
  )
  return { contents: (await transform(text, { minifyIdentifiers: true })).code, resolveDir: dirname(path) }
}

function placed({ path }: OnLoadArgs) {
  const name = path.slice(ROOT.length).replaceAll('\\', '/').replace(/\.ts$/, '')
  const text = readFileSync(path, 'utf8')
  const needed =
    !entries.has(name) || ALONE.includes(name) ? [] : WORKERS.includes(name) ? ['rowhouse-plan'] : Object.keys(TOGETHER)
  const needsPlace = text.includes('import.meta.url')
  if (needed.length === 0 && !needsPlace) return undefined
  const contents = [
    text.replaceAll('import.meta.url', `new URL('../${name}.js', place).href`),
    ...needed.map((each) => `import '${each}'`),
    needsPlace ? `import { place } from '${PLACE}'` : '',
  ]
  return { loader: 'ts' as const, contents: contents.join('\n') }
}

/** Returns a module that loads another one when something of it is used. */
function onDemand(path: string): string {
  const real = `require(${JSON.stringify(path)})`
  const exported = Object.entries(createRequire(path)(path) as object).map(([name, value]) =>
    typeof value === 'function'
      ? `${name}: (...args) => ${real}.${name}(...args)`
      : `get ${name}() { return ${real}.${name} }`,
  )
  return `module.exports = { ${exported.join(', ')} }`
}

/** Returns what Koa's packages read of the types. */
function mimeTypes() {
  type Types = Record<string, { source?: string; charset?: string; extensions?: readonly string[] }>
  return Object.entries(JSON.parse(readFileSync(fromKoa('mime-db/db.json'), 'utf8')) as Types)
    .filter(([, { charset, extensions }]) => charset !== undefined || extensions !== undefined)
    .map(([name, { source, charset, extensions }]) => [name, { source, charset, extensions }] as const)
}

/** Returns the modules that others import on demand. */
function importedOnDemand(): readonly string[] {
  const files = ['core', 'plugins', 'providers'].flatMap((folder) =>
    readdirSync(`${ROOT}${folder}`, { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`),
  )
  return files
    .filter((name) => name.endsWith('.ts'))
    .flatMap((name) =>
      [...readFileSync(`${ROOT}${name}`, 'utf8').matchAll(/await import\('(\.[^']+)\.js'\)/g)].map(([, target = '']) =>
        posix.join(posix.dirname(name.replaceAll('\\', '/')), target),
      ),
    )
}
