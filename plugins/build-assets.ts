import { copyFileSync, mkdirSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type BuildOptions } from 'esbuild'

/** Files of npm packages for pages, by the folder that serves them. They are copied to `build/` with their licences. */
const ASSETS: Readonly<Record<string, readonly string[]>> = {
  'template/page': ['swagger-ui-dist/swagger-ui.css', 'swagger-ui-dist/swagger-ui-bundle.js'],
}

const { resolve } = createRequire(import.meta.url)
for (const [folder, files] of Object.entries(ASSETS)) {
  const target = assetsOf(folder)
  for (const file of files) {
    const [name, ...rest] = file.split('/') as [string, ...string[]]
    const home = dirname(resolve(`${name}/package.json`))
    copyFileSync(join(home, ...rest), join(target, basename(file)))
    copyFileSync(join(home, 'LICENSE'), join(target, `${name}.LICENSE`))
  }
}

copyFileSync(sourceOf('../core/http/tokens.css'), fileURLToPath(new URL('../core/http/tokens.css', import.meta.url)))

const COMMON: BuildOptions = {
  bundle: true,
  format: 'esm',
  target: ['chrome111', 'firefox113', 'safari16.4'],
  minify: true,
  logLevel: 'warning',
}
await build({
  ...COMMON,
  entryPoints: { main: sourceOf('console/app/main.tsx'), panel: sourceOf('console/app/panel.ts') },
  outdir: assetsOf('console'),
  splitting: true,
  chunkNames: '[name]-[hash]',
  jsx: 'automatic',
  jsxImportSource: 'preact',
})

const graphql = assetsOf('graphql/page')
await build({
  ...COMMON,
  entryPoints: { graphiql: sourceOf('graphql/page/graphiql.js') },
  outdir: graphql,
  define: { 'process.env.NODE_ENV': '"production"' },
})
for (const name of ['graphiql', 'react', 'react-dom']) {
  const licence = join(dirname(resolve(`${name}/package.json`)), 'LICENSE')
  copyFileSync(licence, join(graphql, `${name}.LICENSE`))
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
