import { readdirSync, readFileSync } from 'node:fs'
import type { Metafile } from 'esbuild'

/** The folder of a package in a path: the last one, with its scope. */
const PACKAGE = /^.*node_modules\/(@[^/]+\/)?[^/]+/

/** Returns the licences of the packages in a bundle. */
export function licencesOf({ inputs }: Metafile): string {
  const homes = new Set(Object.keys(inputs).flatMap((file) => PACKAGE.exec(file.replace(/^[\w-]+:/, ''))?.[0] ?? []))
  const licences = [...homes].sort().map((home) => {
    const file = readdirSync(home).find((name) => /^licen[cs]e/i.test(name))
    const text = file === undefined ? 'See the package for its licence.\n' : readFileSync(`${home}/${file}`, 'utf8')
    return `${home.replace(/^.*node_modules\//, '')}\n\n${text}`
  })
  return licences.join(`\n${'-'.repeat(80)}\n\n`)
}
