import type { Area } from '../kit/promises.js'
import { allMetadata } from './all-metadata.js'
import { bulks } from './bulks.js'
import { commands } from './commands.js'
import { conditions } from './conditions.js'
import { configurations } from './configurations.js'
import { consoleApi } from './console.js'
import { delivery } from './delivery.js'
import { deliveryEvents } from './delivery-events.js'
import { describe } from './describe.js'
import { dryRun } from './dry-run.js'
import { endpoints } from './endpoints.js'
import { rowEvents } from './events.js'
import { existingDatabase } from './existing-database.js'
import { fileAccess } from './file-access.js'
import { fileBytes } from './file-bytes.js'
import { fileOwners } from './file-owners.js'
import { files } from './files.js'
import { functions } from './functions.js'
import { functionsAndNames } from './functions-and-names.js'
import { graphqlAlpha } from './graphql-alpha.js'
import { graphqlAlphaDocuments } from './graphql-alpha-documents.js'
import { graphqlDocuments } from './graphql-documents.js'
import { graphqlFunctions } from './graphql-functions.js'
import { graphqlNames } from './graphql-names.js'
import { graphqlReads } from './graphql-reads.js'
import { graphqlWrites } from './graphql-writes.js'
import { groups } from './groups.js'
import { health } from './health.js'
import { hidden } from './hidden.js'
import { rowHistory } from './history.js'
import { http } from './http.js'
import { idempotency } from './idempotency.js'
import { inheritedRoles } from './inherited-roles.js'
import { limits } from './limits.js'
import { lint } from './lint.js'
import { listeners } from './listeners.js'
import { mailTemplates } from './mail-templates.js'
import { liveQueries } from './live.js'
import { messageLimits } from './message-limits.js'
import { messages } from './messages.js'
import { origins } from './origins.js'
import { outbox } from './outbox.js'
import { pendingFiles } from './pending-files.js'
import { permissionDefinitions } from './permission-definitions.js'
import { permissions } from './permissions.js'
import { related } from './related.js'
import { relay } from './relay.js'
import { results } from './results.js'
import { review } from './review.js'
import { rows } from './rows.js'
import { runSql } from './run-sql.js'
import { schedules } from './schedules.js'
import { sends } from './sends.js'
import { sessions } from './sessions.js'
import { shares } from './shares.js'
import { sockets } from './sockets.js'
import { sqlstates } from './sqlstates.js'
import { steps } from './steps.js'
import { subscriptions } from './subscriptions.js'
import { tables } from './tables.js'
import { templateOperations } from './template-operations.js'
import { templates } from './templates.js'
import { tokens } from './tokens.js'
import { traces } from './traces.js'
import { uploads } from './uploads.js'
import { values } from './values.js'
import { versions } from './versions.js'
import { writePermissions } from './write-permissions.js'
import { writers } from './writers.js'
import { writes } from './writes.js'

/** All that the product promises, by the process that proves it. */
export const AREAS = {
  data: [
    rows,
    results,
    groups,
    conditions,
    writes,
    writers,
    rowHistory,
    liveQueries,
    values,
    related,
    versions,
    bulks,
    steps,
    functions,
  ],
  metadata: [
    permissions,
    permissionDefinitions,
    writePermissions,
    hidden,
    inheritedRoles,
    tables,
    functionsAndNames,
    existingDatabase,
    allMetadata,
    runSql,
    sqlstates,
    review,
    describe,
    lint,
    health,
  ],
  front: [
    graphqlAlpha,
    graphqlAlphaDocuments,
    graphqlDocuments,
    graphqlFunctions,
    graphqlNames,
    graphqlReads,
    graphqlWrites,
    relay,
    sockets,
    subscriptions,
    templateOperations,
    templates,
  ],
  files: [files, fileAccess, fileOwners, fileBytes, uploads, pendingFiles],
  services: [
    messages,
    outbox,
    delivery,
    messageLimits,
    mailTemplates,
    sends,
    sessions,
    tokens,
    consoleApi,
    deliveryEvents,
    rowEvents,
    schedules,
  ],
  server: [http, origins, limits, shares, idempotency, dryRun],
  settings: [endpoints, listeners, configurations, traces, commands],
} satisfies Readonly<Record<string, readonly Area[]>>
