import { copyFileSync, mkdirSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const GRAPHIQL = [
  'graphiql/graphiql.min.css',
  'graphiql/graphiql.min.js',
  'react/umd/react.production.min.js',
  'react-dom/umd/react-dom.production.min.js',
]
/** Files of npm packages for pages, by the folder that serves them. They are copied to `build/` with their licences. */
const ASSETS: Readonly<Record<string, readonly string[]>> = {
  'graphql/page': GRAPHIQL,
  'template/page': ['swagger-ui-dist/swagger-ui.css', 'swagger-ui-dist/swagger-ui-bundle.js'],
}
/** Our own files for browsers, which TypeScript does not compile. */
const OWN: Readonly<Record<string, readonly string[]>> = {
  'notify/page': ['messages.css', 'messages.js', 'message.js', 'api.js', 'dom.js'],
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
for (const [folder, files] of Object.entries(OWN)) {
  const target = assetsOf(folder)
  for (const file of files) copyFileSync(join(sourceOf(folder), file), join(target, file))
}

copyFileSync(sourceOf('../core/http/tokens.css'), fileURLToPath(new URL('../core/http/tokens.css', import.meta.url)))

await build({
  entryPoints: { main: sourceOf('console/app/main.tsx'), panel: sourceOf('console/app/panel.ts') },
  outdir: assetsOf('console'),
  bundle: true,
  splitting: true,
  format: 'esm',
  target: ['chrome111', 'firefox113', 'safari16.4'],
  minify: true,
  chunkNames: '[name]-[hash]',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  logLevel: 'warning',
})

function sourceOf(path: string): string {
  return fileURLToPath(new URL(`../../plugins/${path}`, import.meta.url))
}

function assetsOf(folder: string): string {
  const target = fileURLToPath(new URL(`./${folder}/assets/`, import.meta.url))
  rmSync(target, { recursive: true, force: true })
  mkdirSync(target, { recursive: true })
  return target
}
