// `node build.mjs` builds what is older than its sources: the program in `dist/`, and its modules and tests in `build/`.
// `node build.mjs program` leaves out the latter, and type checks nothing, so that `npm start` works soon after a pull.
import { spawn } from 'node:child_process'
import { chmodSync, cpSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'

const onlyProgram = process.argv[2] === 'program'
const shared = ['build.mjs', 'package.json', 'package-lock.json', 'tsconfig.json', 'core/http/tokens.css']
const pages = ['plugins/console/app', 'plugins/graphql/page', 'plugins/template/page', 'plugins/build-assets.ts']
const server = ['core', 'plugins', 'providers', 'test/kit']

process.chdir(import.meta.dirname)
/** What each step reads, and what it writes last. */
const steps = [
  {
    what: 'the server',
    program: 'plugins/build-server',
    sources: [...shared, ...server],
    last: 'dist/core/build-id',
    except: ['plugins/console/app'],
  },
  {
    what: 'the pages',
    program: 'plugins/build-assets',
    sources: [...shared, ...pages],
    last: 'dist/plugins/graphql/page/assets/LICENSES.txt',
    except: [],
  },
].filter(({ sources, last, except }) => isOlder(last, sources, except))
const modules = onlyProgram ? [] : ['build.mjs', 'package.json', 'tsconfig.json', ...server, 'test', 'bench']

await Promise.all([isOlder('build/package.json', modules) && compileModules(), makeProgram()])
if (!onlyProgram) finishModules()

/** Runs the programs that build, which are TypeScript as well. */
async function makeProgram() {
  if (steps.length === 0) return
  console.error(`building ${steps.map(({ what }) => what).join(' and ')}`)
  const entryPoints = steps.map(({ program }) => `${program}.ts`)
  await build({
    entryPoints,
    outbase: '.',
    outdir: 'dist',
    bundle: true,
    packages: 'external',
    format: 'esm',
    platform: 'node',
  })
  for (const { what, program } of steps) {
    const since = performance.now()
    await import(`./dist/${program}.js`)
    console.error(`built ${what} in ${((performance.now() - since) / 1000).toFixed(1)} s`)
  }
}

/** Compiles each module by itself for tests, and the declarations of the package. */
async function compileModules() {
  await run('node_modules/typescript/bin/tsc', '-p', '.')
  await run('node_modules/typescript/bin/tsc', '-p', 'plugins/console/app')
}

/** Makes a package of the modules, so that they import each other as `rowhouse`. Other files are those of the program. */
function finishModules() {
  const { name, type, exports } = JSON.parse(readFileSync('package.json', 'utf8'))
  const own = JSON.stringify({ name, type, exports }).replaceAll('./dist/', './')
  writeFileSync('build/package.json', own)
  const isModule = (path) => /\.(js|d\.ts|map)$/.test(path) && !path.includes('/assets/')
  for (const folder of ['core', 'plugins', 'providers']) {
    cpSync(`dist/${folder}`, `build/${folder}`, { recursive: true, filter: (path) => !isModule(path) })
  }
  // Tests start the program that users start.
  writeFileSync('build/core/cli.js', "#!/usr/bin/env node\nimport '../../dist/core/cli.js'\n")
  chmodSync('build/core/cli.js', 0o755)
}

async function run(...command) {
  const child = spawn(process.execPath, command, { stdio: 'inherit' })
  const code = await new Promise((resolve) => child.once('exit', resolve))
  if (code !== 0) process.exit(code ?? 1)
}

function isOlder(file, sources, except = []) {
  return sources.length > 0 && (!existsSync(file) || newest(sources, except) > statSync(file).mtimeMs)
}

/** The time of the last change of a file, or in a folder. */
function newest(paths, except) {
  const times = paths.map((path) => {
    if (except.includes(path) || !existsSync(path)) return 0
    const stat = statSync(path)
    return stat.isDirectory()
      ? newest(
          readdirSync(path).map((name) => join(path, name)),
          except,
        )
      : stat.mtimeMs
  })
  return Math.max(0, ...times)
}
