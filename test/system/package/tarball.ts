import { cp, mkdir, mkdtemp, readFile, symlink } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from './commands.js'

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url))

/** Packs a slim `dist/` into a folder, as `prepack` does, but in a copy: the folder `package`. Returns the path of the tarball. */
export async function pack(folder: string): Promise<string> {
  const npm = async (cwd: string): Promise<string> => {
    const { out } = await done(run(cwd, ['npm', 'pack', '--ignore-scripts', '--pack-destination', folder, '--json']))
    return join(folder, (JSON.parse(out) as [{ readonly filename: string }])[0].filename)
  }
  await done(run(folder, ['tar', '-xzf', await npm(ROOT)]))
  const copy = join(folder, 'package')
  await done(run(copy, [process.execPath, join(ROOT, 'build/plugins/slim-build.js')]))
  return npm(copy)
}

/** The versions of Node.js among the packages of the folder `package`. npm has none of them for some machines. */
export function nodesOf(tools: string): ReadonlyMap<string, string> {
  return new Map(['node20', 'node22', 'node24'].map((name) => [name, join(tools, 'node_modules', name, 'bin/node')]))
}

/**
 * Installs the tarball into a new folder as for production, and puts the compiled modules and tests in it: they start the
 * program of the tarball, and use the dependencies that npm installed for it.
 * @returns the folder of the installed package
 */
export async function installWithTests(folder: string): Promise<string> {
  const tarball = await pack(folder)
  const app = await mkdtemp(join(folder, 'app-'))
  await done(run(app, ['npm', 'init', '-y']))
  await done(run(app, ['npm', 'install', '--omit=optional', '--no-audit', '--no-fund', tarball]))
  const installed = join(app, 'node_modules/rowhouse')
  await cp(join(ROOT, 'build'), join(installed, 'build'), { recursive: true })
  for (const name of await testPackages()) {
    const place = join(app, 'node_modules', name)
    if (existsSync(place) || !existsSync(join(ROOT, 'node_modules', name))) continue
    await mkdir(dirname(place), { recursive: true })
    await symlink(join(ROOT, 'node_modules', name), place)
  }
  return installed
}

/** What tests import beside the dependencies of the package: optional ones are installed for some machines only. */
async function testPackages(): Promise<readonly string[]> {
  const text = await readFile(join(ROOT, 'package.json'), 'utf8')
  const { devDependencies, optionalDependencies } = JSON.parse(text) as Readonly<Record<string, object>>
  return Object.keys({ ...devDependencies, ...optionalDependencies })
}

async function done(running: ReturnType<typeof run>): ReturnType<typeof run> {
  const ended = await running
  if (ended.code !== 0) throw new Error(ended.err)
  return ended
}
