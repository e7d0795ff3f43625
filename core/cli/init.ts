import { existsSync, readdirSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { isPlain } from '../host/resolve-section.js'
import { jsonOrNone } from '../json/value.js'
import { type Invocation, pathIn } from './invocation.js'

/** With this extension, the file is an ES module whatever "type" in package.json says. */
const CONFIG_FILE = 'rowhouse.config.mjs'
const CONFIG = `// All settings: node_modules/rowhouse/core/SETTINGS.md
// Environment variables override this file: ROWHOUSE_HTTP__PORT=9000 is http.port.
export default {
  http: {
    port: 8080,
    // cors: { origins: ['https://app.example.com'] },
  },

  // rowhouse dev runs a PostgreSQL of its own; rowhouse start requires a database.
  // database: { url: { $env: 'DATABASE_URL' } },

  // Tokens of your users. The admin secret comes from ROWHOUSE_ADMIN_SECRET.
  // auth: { jwt: { jwksUrl: 'https://id.example.com/keys', algorithms: ['RS256'], issuer: 'https://id.example.com' } },

  // Your own plugins, with their settings: node_modules/rowhouse/plugins/README.md
  // plugins: { hello: { use: './hello.mjs' } },

  // Email, SMS and storage for files: node_modules/rowhouse/providers/README.md
  // providers: { email: { smtp: { host: 'smtp.example.com' } } },
}
`

const IGNORED = ['node_modules/', '.rowhouse/', '.env']

const SCRIPTS: Readonly<Record<string, string>> = {
  dev: 'rowhouse dev',
  start: 'rowhouse start',
  check: 'rowhouse check',
  migrate: 'rowhouse migrate up',
  'metadata:export': 'rowhouse metadata export migrations/metadata.json',
  'metadata:apply': 'rowhouse metadata apply migrations/metadata.json',
}

/** Creates the files of a project in this folder, and reports what was there already. */
export async function init(invocation: Invocation): Promise<number> {
  const { cwd, print } = invocation
  const manifest = await readManifest(invocation)
  const config = readdirSync(cwd).find((name) => name.startsWith('rowhouse.config.'))
  if (config === undefined) await create(invocation, CONFIG_FILE, CONFIG)
  else print(`kept ${config}`)
  const file = pathIn(cwd, '.gitignore')
  const ignored = existsSync(file) ? (await readFile(file, 'utf8')).split(/\r?\n/) : []
  const missing = IGNORED.filter((path) => !ignored.includes(path) && !ignored.includes(path.replace(/\/$/, '')))
  const hint = missing.length > 0 ? `; add ${missing.join(', ')}` : ''
  await create(invocation, '.gitignore', `${IGNORED.join('\n')}\n`, hint)
  await addScripts(invocation, manifest)
  print('npm run dev starts a server')
  return 0
}

/** Writes a file unless it exists. @param hint what to do about the one that exists */
async function create({ cwd, print }: Invocation, file: string, text: string, hint = ''): Promise<void> {
  try {
    await writeFile(pathIn(cwd, file), text, { flag: 'wx' })
    print(`wrote ${file}`)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    print(`kept ${file}${hint}`)
  }
}

interface Manifest {
  readonly text: string
  readonly value: Readonly<Record<string, unknown>>
  readonly scripts: Readonly<Record<string, unknown>>
}

async function readManifest({ cwd }: Invocation): Promise<Manifest> {
  const file = pathIn(cwd, 'package.json')
  if (!existsSync(file)) throw new Error('there is no package.json in this folder; run npm init -y first')
  const text = await readFile(file, 'utf8')
  const value = jsonOrNone(text)
  const scripts = isPlain(value) ? (value['scripts'] ?? {}) : undefined
  if (!isPlain(value) || !isPlain(scripts))
    throw new Error('package.json must be a JSON object, and so must its scripts')
  return { text, value, scripts }
}

/** Adds the scripts whose names are free. Indents the file as before. */
async function addScripts({ cwd, print }: Invocation, { text, value, scripts }: Manifest): Promise<void> {
  const names = Object.keys(SCRIPTS)
  const [taken, free] = [names.filter((name) => name in scripts), names.filter((name) => !(name in scripts))]
  if (free.length > 0) {
    const added = { ...value, scripts: { ...SCRIPTS, ...scripts } }
    const indent = /^[ \t]+(?=")/m.exec(text)?.[0] ?? '  '
    await writeFile(pathIn(cwd, 'package.json'), `${JSON.stringify(added, null, indent)}\n`)
    print(`added scripts to package.json: ${free.join(', ')}`)
  }
  if (taken.length > 0) print(`kept scripts of package.json: ${taken.join(', ')}`)
}
