import { existsSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * Imports a module that the configuration names, or the configuration itself.
 * @returns its default export, also of a module that was compiled to CommonJS
 * @throws Error that says what to change, if Node.js cannot read the file for a reason that its users can remove
 */
export async function importDefault(url: string): Promise<unknown> {
  try {
    const { default: value } = (await import(url)) as { readonly default?: unknown }
    return isCompiled(value) ? value.default : value
  } catch (error) {
    const advice = error instanceof Error ? adviceFor(error, url) : undefined
    if (advice === undefined) throw error
    throw new Error(advice, { cause: error })
  }
}

/** Returns whether a compiler turned `export default` into a property of `module.exports`. */
const isCompiled = (value: unknown): value is { readonly default?: unknown } =>
  typeof value === 'object' && value !== null && '__esModule' in value

function adviceFor(error: Error & { readonly code?: unknown }, url: string): string | undefined {
  if (error.code === 'ERR_UNKNOWN_FILE_EXTENSION' && /\.m?ts"?( |$)/.test(error.message)) {
    return `Node.js ${process.versions.node} does not read TypeScript: use Node.js 22.18 or newer, or compile the file to JavaScript`
  }
  if (
    !(error instanceof SyntaxError) ||
    !/^(Unexpected token 'export'|Cannot use import statement)/.test(error.message)
  )
    return undefined
  const file = failedFile(error) ?? (url.startsWith('file:') ? fileURLToPath(url) : url)
  const manifest = nearestManifest(dirname(file))
  if (manifest === undefined) return undefined
  const renamed = basename(file).replace(/\.(js|ts)$/, '.m$1')
  return `${basename(file)} is CommonJS, because ${manifest} has "type": "commonjs": rename it to ${renamed}, or change that to "module"`
}

/** Returns the file in which Node.js found the mistake: the first line of the stack, before the code. */
const failedFile = ({ stack = '' }: Error): string | undefined => {
  const place = /^(.+):\d+$/.exec(stack.split('\n', 1)[0] ?? '')?.[1]
  return place?.startsWith('file:') ? fileURLToPath(place) : place
}

/** Returns the package.json that decides about a folder, if it says that its files are CommonJS. */
function nearestManifest(folder: string): string | undefined {
  const file = join(folder, 'package.json')
  if (!existsSync(file)) return dirname(folder) === folder ? undefined : nearestManifest(dirname(folder))
  return /"type"\s*:\s*"commonjs"/.test(readFileSync(file, 'utf8')) ? file : undefined
}
