import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
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
export function installGenerators(): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'rowhouse-generators-'))
  for (const name of ['package.json', 'package-lock.json']) copyFileSync(source(name), join(folder, name))
  const options = ['--prefer-offline', '--fetch-retries=1', '--ignore-scripts', '--no-audit', '--no-fund', '--silent']
  const { status } = spawnSync('npm', ['ci', ...options], { cwd: folder, stdio: 'ignore', timeout: PATIENCE_MS })
  if (status === 0) return folder
  rmSync(folder, { recursive: true, force: true })
  return undefined
}
