import { createRequire } from 'node:module'
import type * as Library from 'ajv'

/** Creates an Ajv instance that knows the marks of settings. Loads Ajv on first use, because a start with a valid configuration does not need it. */
export function newAjv(options: Library.Options): Library.Ajv {
  const { Ajv } = createRequire(import.meta.url)('ajv') as typeof Library
  const made = new Ajv(options)
  for (const keyword of ['secret', 'advanced']) made.addKeyword({ keyword, schemaType: 'boolean' })
  return made
}
