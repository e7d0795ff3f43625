import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'

/** Pages are most of the package. */
const BEST = { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 24 } }

/**
 * Makes `dist/` of this folder small; `npm pack` runs it. Compresses pages as far as possible, and removes declarations that
 * no entry point of the package refers to. Other declarations keep their comments, which editors show.
 */
const { exports } = JSON.parse(readFileSync('package.json', 'utf8')) as { readonly exports: Record<string, string> }
const needed = new Set<string>()
for (const entry of Object.values(exports)) follow(declarationOf(entry))

for (const name of readdirSync('dist', { recursive: true, encoding: 'utf8' })) {
  const file = join('dist', name)
  if (name.endsWith('.br')) writeFileSync(file, brotliCompressSync(brotliDecompressSync(readFileSync(file)), BEST))
  if (name.endsWith('.d.ts') && !needed.has(file)) rmSync(file)
}

/** Adds a declaration, and all that it refers to, to those that are needed. */
function follow(file: string): void {
  if (needed.has(file) || !existsSync(file)) return
  needed.add(file)
  const references = readFileSync(file, 'utf8').matchAll(/\b(?:from|import)[ (]['"](\.[^'"]+)['"]/g)
  for (const [, path = ''] of references) follow(declarationOf(join(dirname(file), path)))
}

function declarationOf(path: string): string {
  return join(path.replace(/\.js$/, '.d.ts'))
}
