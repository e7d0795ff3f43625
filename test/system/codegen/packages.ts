import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const PATIENCE_MS = 300_000
const source = (name: string): string =>
  fileURLToPath(new URL(`../../../../test/system/codegen/${name}`, import.meta.url))

/**
 * A new folder below the temporary ones with the generators in it, of exactly the versions of the lock file.
 * @returns undefined when npm could not get them, e.g. offline
 */
export async function installGenerators(): Promise<string | undefined> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-generators-'))
  for (const name of ['package.json', 'package-lock.json']) await copyFile(source(name), join(folder, name))
  const options = ['--prefer-offline', '--fetch-retries=1', '--ignore-scripts', '--no-audit', '--no-fund', '--silent']
  const npm = spawn('npm', ['ci', ...options], { cwd: folder, stdio: 'ignore', timeout: PATIENCE_MS })
  const [code] = (await once(npm, 'close')) as [number | null]
  if (code === 0) return folder
  await rm(folder, { recursive: true, force: true })
  return undefined
}
