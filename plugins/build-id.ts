import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/**
 * Writes `dist/core/build-id`: a hash of all modules of the program, so that two builds of one version can be told apart.
 * The same sources have the same one on every machine. `build-server` runs this last.
 */
const root = fileURLToPath(new URL('../', import.meta.url))
const hash = createHash('sha256')
const isModule = (name: string): boolean => name.endsWith('.js') && !/[\\/]assets[\\/]/.test(name)
for (const folder of ['chunks', 'core', 'plugins', 'providers']) {
  const names = readdirSync(`${root}${folder}`, { recursive: true, encoding: 'utf8' }).filter(isModule)
  for (const name of names.sort()) {
    hash
      .update(`${folder}/${name.replaceAll('\\', '/')}\0`)
      .update(readFileSync(`${root}${folder}/${name}`))
      .update('\0')
  }
}
writeFileSync(`${root}core/build-id`, hash.digest('hex').slice(0, 12))
