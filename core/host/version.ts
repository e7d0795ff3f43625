import { readFileSync } from 'node:fs'

/** Version of this package. */
export const version: string = (
  JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as { version: string }
).version

/** Tells builds of one version apart. `npm run build` writes it; without that it is `unknown`. */
export const build: string = readBuild()

function readBuild(): string {
  try {
    return readFileSync(new URL('../build-id', import.meta.url), 'utf8')
  } catch {
    return 'unknown'
  }
}
