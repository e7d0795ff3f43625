import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** An example of a README in TypeScript or JavaScript. */
export interface Example {
  /** e.g. `plugins/README.md:23` */
  readonly place: string
  readonly code: string
}

/** Examples that show the tests of a clone. A package of somebody else cannot import them. */
const INSIDE = ['test/README.md']

const WHOLE = /^(\/\/ .*\n)?export default \{|^import .*\n+export default \{/
const SETTINGS = /^(auth|http|jwt|plugins|providers): /

/** Returns all examples of Markdown files in a folder, without those that show the inside of Rowhouse. */
export function examplesOf(folder: string, files: readonly string[]): readonly Example[] {
  return files
    .flatMap((file) => {
      const text = readFileSync(join(folder, file), 'utf8')
      return [...text.matchAll(/^```(?:ts|js)\n(.*?)^```$/gms)].map(({ 1: code = '', index }) => ({
        place: `${file}:${text.slice(0, index).split('\n').length}`,
        code,
      }))
    })
    .filter(({ place, code }) => !INSIDE.some((start) => `${place.replace(/:\d+$/, '')}: ${code}`.startsWith(start)))
}

export const isConfiguration = ({ code }: Example): boolean => WHOLE.test(code) || SETTINGS.test(code)

/** Returns a configuration file of an example, which may be a part of one. */
export function asConfiguration({ code }: Example): string {
  if (WHOLE.test(code)) return code
  return `export default {\n${code.startsWith('jwt:') ? `auth: {\n${code}}` : code}}\n`
}

/** Returns a module of an example, with what its README takes for granted: the imports, and the `setup` around it. */
export function asModule({ code }: Example): string {
  const imports = [...code.matchAll(/^import .*\n/gm)].map(([line]) => line).join('')
  const rest = code.replaceAll(/^import .*\n/gm, '')
  if (code.startsWith('commands:'))
    return `import { definePlugin } from 'rowhouse'
export default definePlugin({
  name: 'example',
  config: { type: 'object', properties: { maxLength: { type: 'integer', default: 200 } } },
  setup() {},
  ${code}})\n`
  if (imports === '' && code.includes("declare module 'rowhouse'")) return `import type {} from 'rowhouse'\n${code}`
  if (!/\bhost\./.test(rest) || rest.includes('setup('))
    return rest.includes('${token}') ? `declare const token: string\n${code}` : code
  return `${imports}import { definePlugin, staticPage } from 'rowhouse'
declare const ctx: { readonly state: { readonly signal: AbortSignal } }
export default definePlugin({
  name: 'example',
  needs: ['data', 'operations'${code.includes("'filestore'") ? ", 'filestore'" : ''}],
  async setup(host) {
    const data = host.use('data')
    const operations = host.use('operations')
    ${rest}  },
})\n`
}
