import type { Area } from '../kit/promises.js'
import { commands } from './commands.js'
import { data } from './data.js'
import { fileAccess } from './file-access.js'
import { fileBytes } from './file-bytes.js'
import { fileOwners } from './file-owners.js'
import { files } from './files.js'
import { pendingFiles } from './pending-files.js'
import { graphqlAlpha } from './graphql-alpha.js'
import { graphqlAlphaDocuments } from './graphql-alpha-documents.js'
import { graphqlDocuments } from './graphql-documents.js'
import { graphqlFunctions } from './graphql-functions.js'
import { graphqlNames } from './graphql-names.js'
import { graphqlReads } from './graphql-reads.js'
import { graphqlWrites } from './graphql-writes.js'
import { relay } from './relay.js'
import { templateOperations } from './template-operations.js'
import { templates } from './templates.js'
import { uploads } from './uploads.js'

/** All that the product promises, by the process that proves it. */
export const AREAS = {
  data: [data],
  commands: [commands],
  front: [
    graphqlAlpha,
    graphqlAlphaDocuments,
    graphqlDocuments,
    graphqlFunctions,
    graphqlNames,
    graphqlReads,
    graphqlWrites,
    relay,
    templateOperations,
    templates,
  ],
  services: [files, fileAccess, fileOwners, fileBytes, uploads, pendingFiles],
} satisfies Readonly<Record<string, readonly Area[]>>
