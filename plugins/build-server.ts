import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { build, type OnLoadArgs, type PluginBuild } from 'esbuild'
import { licencesOf } from './build-licences.js'

/**
 * Bundles the program into `dist/`: few files load faster than many. All entry points are of one bundle, so that each module
 * is there once, and an error of the server is a `ServiceError` of a plugin. `npm run build` runs this.
 */
const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const OUT = `${ROOT}dist/`

/** Packages that each start loads. A hundred of their files become part of ours. */
const INSIDE = /^(@koa\/router|inflection|koa|pg|pg-query-stream|pino)$/

const fromKoa = createRequire(createRequire(import.meta.url).resolve('koa')).resolve

/** The module that knows where the bundle is. */
const PLACE = 'rowhouse-place'

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

const { exports } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as {
  readonly exports: Readonly<Record<string, string>>
}
const sourceOf = (exported: string): string => exported.replace('./dist/', '').replace(/\.js$/, '')
const programs = Object.values(exports).filter((path) => path.endsWith('.js'))

rmSync(`${OUT}chunks`, { recursive: true, force: true })
const { metafile } = await build({
  absWorkingDir: ROOT,
  entryPoints: [...programs.map(sourceOf), ...BY_URL].map((path) => `${path}.ts`),
  outbase: ROOT,
  outdir: OUT,
  chunkNames: 'chunks/[hash]',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  charset: 'utf8',
  sourcemap: true,
  sourcesContent: false,
  legalComments: 'none',
  minifySyntax: true,
  minifyWhitespace: true,
  lineLimit: 120,
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
    if (kind === 'entry-point' || path === PLACE || resolveDir.includes('node_modules') || INSIDE.test(path))
      return undefined
    return { path, external: true }
  })
  // Koa's packages have three copies of this table.
  onResolve({ filter: /^mime-db$/ }, () => ({ path: fromKoa('mime-db/db.json') }))
  onResolve({ filter: new RegExp(`^${PLACE}$`) }, () => ({ path: PLACE, namespace: PLACE }))
  // In `dist/chunks/`, because more than one entry point has it.
  onLoad({ filter: /.*/, namespace: PLACE }, () => ({ contents: 'export const place = import.meta.url' }))
  onLoad({ filter: /\.ts$/ }, placed)
}

function placed({ path }: OnLoadArgs) {
  const text = readFileSync(path, 'utf8')
  if (!text.includes('import.meta.url')) return undefined
  const module = `../${path.slice(ROOT.length).replaceAll('\\', '/').replace(/\.ts$/, '.js')}`
  const contents = `${text.replaceAll('import.meta.url', `new URL('${module}', place).href`)}\nimport { place } from '${PLACE}'\n`
  return { loader: 'ts' as const, contents }
}
