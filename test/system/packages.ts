import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const PATIENCE_MS = 300_000
/** Where packages are that are installed already. */
export const TEST_PACKAGES = 'ROWHOUSE_TEST_PACKAGES'
/** Folders of tests with a lock file of their own. */
export type Packages = 'clients' | 'codegen' | 'deploy' | 'package'

/** Where the packages of a folder of tests are; installs them unless `ROWHOUSE_TEST_PACKAGES` says where they are. */
export async function packages(t: { teardown(fn: () => Promise<void>): unknown }, of: Packages): Promise<string> {
  const given = process.env[TEST_PACKAGES]
  if (given !== undefined) return given
  const folder = await installPackages(of)
  if (folder === undefined) throw new Error('the packages cannot be installed: is the npm registry within reach?')
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/**
 * A new folder below the temporary ones with the packages in it, of exactly the versions of the lock file.
 * @returns undefined when npm could not get them, e.g. offline
 */
export async function installPackages(of: Packages): Promise<string | undefined> {
  const folder = await mkdtemp(join(tmpdir(), `rowhouse-${of}-`))
  for (const name of ['package.json', 'package-lock.json']) await copyFile(source(of, name), join(folder, name))
  const options = ['--prefer-offline', '--fetch-retries=1', '--ignore-scripts', '--no-audit', '--no-fund', '--silent']
  const npm = spawn('npm', ['ci', ...options], { cwd: folder, stdio: 'ignore', timeout: PATIENCE_MS })
  const [code] = (await once(npm, 'close')) as [number | null]
  if (code === 0) return folder
  await rm(folder, { recursive: true, force: true })
  return undefined
}

/** A module of a package that is installed in a folder. */
// oxlint-disable-next-line typescript/no-explicit-any
export function loadPackage(home: string, name: string): any {
  return createRequire(join(home, 'package.json'))(name)
}

const source = (of: Packages, name: string): string =>
  fileURLToPath(new URL(`../../../test/system/${of}/${name}`, import.meta.url))
