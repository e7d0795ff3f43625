import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants } from 'node:zlib'
import { build, type BuildOptions } from 'esbuild'

/**
 * Files of npm packages for pages, by the folder that serves them. They go to `build/` with their licences, compressed
 * like all that `bundle` writes: that takes a tenth off the package that users install.
 */
const ASSETS: Readonly<Record<string, readonly string[]>> = {
  'template/page': ['swagger-ui-dist/swagger-ui.css', 'swagger-ui-dist/swagger-ui-bundle.js'],
}

/** Pages are most of the package, and the package is small. */
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 24 } }

/** The folder of a package in a path: the last one, with its scope. */
const PACKAGE = /^.*node_modules\/(@[^/]+\/)?[^/]+/

const { resolve } = createRequire(import.meta.url)
for (const [folder, files] of Object.entries(ASSETS)) {
  const target = assetsOf(folder)
  for (const file of files) {
    const [name, ...rest] = file.split('/') as [string, ...string[]]
    const home = dirname(resolve(`${name}/package.json`))
    await writeCompressed(join(target, basename(file)), readFileSync(join(home, ...rest)))
    copyFileSync(join(home, 'LICENSE'), join(target, `${name}.LICENSE`))
  }
}

for (const name of ['page.css', 'page.js']) {
  const target = fileURLToPath(new URL(`./template/page/assets/${name}`, import.meta.url))
  copyFileSync(sourceOf(`template/page/${name}`), target)
}
copyFileSync(sourceOf('../core/http/tokens.css'), fileURLToPath(new URL('../core/http/tokens.css', import.meta.url)))

await bundle('console', {
  entryPoints: { main: sourceOf('console/app/main.tsx'), panel: sourceOf('console/app/panel.ts') },
  splitting: true,
  chunkNames: '[name]-[hash]',
  jsx: 'automatic',
  jsxImportSource: 'preact',
})
await bundle('graphql/page', {
  entryPoints: { graphiql: sourceOf('graphql/page/graphiql.js') },
  define: { 'process.env.NODE_ENV': '"production"' },
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
  const homes = new Set(Object.keys(metafile!.inputs).flatMap((file) => PACKAGE.exec(file)?.[0] ?? []))
  const licences = [...homes].sort().map((home) => {
    const file = readdirSync(home).find((name) => /^licen[cs]e/i.test(name))
    const text = file === undefined ? 'See the package for its licence.\n' : readFileSync(join(home, file), 'utf8')
    return `${home.replace(/^.*node_modules\//, '')}\n\n${text}`
  })
  writeFileSync(join(outdir, 'LICENSES.txt'), licences.join(`\n${'-'.repeat(80)}\n\n`))
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
