import type { Area } from '../kit/promises.js'
import { commands } from './commands.js'
import { data } from './data.js'
import { graphql } from './graphql.js'
import { templates } from './templates.js'

/** All that the product promises, by the process that proves it. */
export const AREAS = {
  data: [data],
  commands: [commands],
  front: [graphql, templates],
} satisfies Readonly<Record<string, readonly Area[]>>
