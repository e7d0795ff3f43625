import type { Area } from '../kit/promises.js'
import { commands } from './commands.js'
import { data } from './data.js'
import { fileAccess } from './file-access.js'
import { fileBytes } from './file-bytes.js'
import { fileOwners } from './file-owners.js'
import { files } from './files.js'
import { graphql } from './graphql.js'
import { pendingFiles } from './pending-files.js'
import { templates } from './templates.js'
import { uploads } from './uploads.js'

/** All that the product promises, by the process that proves it. */
export const AREAS = {
  data: [data],
  commands: [commands],
  front: [graphql, templates],
  services: [files, fileAccess, fileOwners, fileBytes, uploads, pendingFiles],
} satisfies Readonly<Record<string, readonly Area[]>>
