import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { transformSync } from 'esbuild'

/** Removes the comments of all JavaScript in `build/` of this folder. `npm pack` runs it; types keep their comments. */
for (const name of readdirSync('build', { recursive: true, encoding: 'utf8' })) {
  if (!name.endsWith('.js')) continue
  const file = join('build', name)
  writeFileSync(file, transformSync(readFileSync(file, 'utf8'), { charset: 'utf8', legalComments: 'none' }).code)
}
