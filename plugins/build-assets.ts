import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants } from 'node:zlib'
import { build, type BuildOptions, type PluginBuild } from 'esbuild'
import { licencesOf } from './build-licences.js'

/**
 * Files of npm packages for pages, by the folder that serves them. They go to `dist/` with their licences, compressed
 * like all that `bundle` writes: that takes a tenth off the package that users install.
 */
const ASSETS: Readonly<Record<string, readonly string[]>> = {
  'template/page': ['swagger-ui-dist/swagger-ui.css', 'swagger-ui-dist/swagger-ui-bundle.js'],
}

/** A twelfth of the time that the best quality takes, for a tenth more bytes; `slim-build` compresses again for the package. */
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }

/** Packages of which GraphiQL needs little: `graphql/page/stand-ins` has that. */
const UNUSED = /^(entities|framer-motion|@tanstack\/react-virtual|vscode-languageserver-types)$/

const { resolve } = createRequire(import.meta.url)
for (const [folder, files] of Object.entries(ASSETS)) {
  const target = assetsOf(folder)
  for (const file of files) {
    const [name, ...rest] = file.split('/') as [string, ...string[]]
    const home = dirname(resolve(`${name}/package.json`))
    await writeCompressed(join(target, basename(file)), readFileSync(join(home, ...rest)))
    const terms = ['LICENSE', 'NOTICE'].map((part) => readFileSync(join(home, part), 'utf8'))
    writeFileSync(join(target, `${name}.LICENSE`), terms.join('\n'))
  }
}

for (const name of ['page.css', 'page.js']) {
  const target = fileURLToPath(new URL(`./template/page/assets/${name}`, import.meta.url))
  copyFileSync(sourceOf(`template/page/${name}`), target)
}
await bundle('console', {
  entryPoints: { main: sourceOf('console/app/main.tsx'), panel: sourceOf('console/app/panel.ts') },
  splitting: true,
  chunkNames: '[name]-[hash]',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  alias: { 'rowhouse/sentence': sourceOf('query/review/rule-sentence.ts') },
  // Nothing here renders on a server, but preact-iso could.
  external: ['*/prerender.js'],
})
await bundle('graphql/page', {
  entryPoints: { graphiql: sourceOf('graphql/page/graphiql.js') },
  define: { 'process.env.NODE_ENV': '"production"' },
  plugins: [{ name: 'stand-ins', setup: useStandIns }],
})

/** Bundles our own programs for browsers, with the licences of the packages in them. */
async function bundle(folder: string, options: BuildOptions): Promise<void> {
  const outdir = assetsOf(folder)
  const { metafile, outputFiles } = await build({
    bundle: true,
    format: 'esm',
    target: ['chrome111', 'firefox113', 'safari16.4'],
    minify: true,
    logLevel: 'warning',
    metafile: true,
    write: false,
    outdir,
    ...options,
  })
  await Promise.all(outputFiles!.map(({ path, contents }) => writeCompressed(path, contents)))
  writeFileSync(join(outdir, 'LICENSES.txt'), licencesOf(metafile!))
}

/** GraphiQL is a fifth smaller without what it does not use of its packages. `graphql` is there once, as modules. */
function useStandIns({ onResolve }: PluginBuild): void {
  const standIn = (name: string) => sourceOf(`graphql/page/stand-ins/${name}.js`)
  onResolve({ filter: UNUSED }, ({ path }) => ({ path: standIn(basename(path)) }))
  onResolve({ filter: /^graphql$/ }, ({ kind }) => ({
    path: kind === 'require-call' ? standIn('graphql') : resolve('graphql/index.mjs'),
  }))
}

async function writeCompressed(file: string, content: Uint8Array): Promise<void> {
  writeFileSync(`${file}.br`, await promisify(brotliCompress)(content, BROTLI))
}

function sourceOf(path: string): string {
  return fileURLToPath(new URL(`../../plugins/${path}`, import.meta.url))
}

function assetsOf(folder: string): string {
  const target = fileURLToPath(new URL(`./${folder}/assets/`, import.meta.url))
  rmSync(target, { recursive: true, force: true })
  mkdirSync(target, { recursive: true })
  return target
}
