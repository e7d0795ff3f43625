import { createRequire } from 'node:module'
import type * as Library from 'ajv'

/** Ajv, loaded when it is first needed: a start on a configuration without mistakes does not. */
export function newAjv(options: Library.Options): Library.Ajv {
  const { Ajv } = createRequire(import.meta.url)('ajv') as typeof Library
  return new Ajv(options)
}
