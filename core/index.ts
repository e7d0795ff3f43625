/** The public API for plugins and providers, including the built-in ones. */
export { type Answer, jsonAnswer, type RowStream } from './answer.js'
export { announce } from './metadata/change.js'
export type { Editor } from './metadata/editor.js'
export {
  agree as permissionsAgree,
  definitionFor,
  type InheritedRoles,
  inOrder as rolesInOrder,
  permissionsFor,
  WRITES as WRITE_TYPES,
} from './metadata/inherited-role.js'
export { permissionKey, type PermissionRow, type PermissionType, type TrackedTable } from './metadata/metadata.js'
export { namedValue, pathIn, sessionVariable } from './cli/invocation.js'
export { partsOf, type RulePart } from './metadata/permission.js'
export type { Capture, CaptureEvent } from './metadata/capture.js'
export type { PrintCondition } from './metadata/row-condition.js'
export type { DatabaseTable } from './metadata/introspect.js'
export type { Migration } from './metadata/schema.js'
export {
  ident,
  join,
  literal,
  rowAlias,
  type Sql,
  sql,
  tableText as tableSql,
  typeText as typeSql,
} from './sql/text.js'
export type { Catalog } from './catalog/catalog.js'
export type { TemplateMeaning } from './metadata/draft.js'
export type * from './host/contracts.js'
export type { Way } from './plan/read-set.js'
export type { Data, Request, Transaction, Watched, WatchedSource } from './data/data.js'
export { withDryRun } from './data/registry.js'
export type {
  Explained,
  Inspect,
  PermissionExplained,
  PermissionQuestion,
  PlanReader,
  QueryPlan,
} from './data/inspect.js'
export { insertNested, type InsertStep, type NestedFrontEnd, NestedWrite, relatedBy } from './data/nested.js'
export type { Call, Operation, Operations, Steps, Templatable } from './data/operations.js'
export { describe as describeDatabaseError } from './db/sqlstates.js'
export { at, type ErrorCode, ERRORS, ServiceError, serviceError } from './errors.js'
export { answerQuery, callOf } from './request.js'
export { takeLock } from './host/migrate.js'
export { definePlugin, defineProvider, OperationRefused } from './host/plugin.js'
export { setting } from './json/setting.js'
export { version } from './host/version.js'
export { counted, didYouMean } from './wording.js'
export type {
  AskOptions,
  CommandContext,
  Host,
  Plugin,
  PluginCommand,
  Provider,
  ProviderContext,
  ServiceName,
  Services,
} from './host/plugin.js'
export { assertSameOrigin, isSameOrigin, requireJson } from './http/identity.js'
export { readHttpDate } from './http/date.js'
export { assertNotCoded, readBody, readJson } from './http/body.js'
export {
  addressProblem,
  createOutbound,
  type Outbound,
  type OutboundAnswer,
  OutboundError,
  type OutboundRequest,
} from './http/outbound.js'
export { escapeHtml } from './http/page.js'
export { listsTag, tagged } from './http/respond.js'
export { IF_MATCH, type Match, readMatch } from './request-headers.js'
export type { Exchange, Handler, HandlerRoute } from './http/exchange.js'
export { respond, wantedFormat } from './http/respond.js'
export type { Authenticator, Credentials } from './http/admission.js'
export type { MessageExchange, Upgrade, UpgradeHandler } from './http/upgrade.js'
export { staticPage, type StaticPage } from './http/static-page.js'
import './http/request-state.js'
export { comparable, recipientsOf, withoutDuplicates } from './host/contracts.js'
export { type Outcome, SendError, shortLine } from './host/contracts.js'
export type { Json, JsonObject } from './json/parse.js'
export { valueAtPointer } from './json/json-pointer.js'
export type { Infer, Schema } from './json/schema.js'
export {
  assertAdmin,
  INTERNAL,
  internalFor,
  isAdmin,
  isInteger,
  isUserId,
  permissionRole,
  ROLE_NAME,
  roleName,
  type Session,
  USER_ID,
  USER_ID_RULE,
  VARIABLE_NAME,
} from './session.js'
export {
  answerSchema,
  type FindTable,
  type JsonSchema,
  orNull,
  schemaOf,
  tablesOf,
} from './parameters/answer-schema.js'
export {
  isPlaceholder,
  operandsIn,
  placeholder,
  type TypedValue,
  typeInRows,
  valuesIn,
} from './parameters/placeholders.js'
export { fill, hasObjects, type PlaceMarks, type Place, textFor, type Use } from './parameters/places.js'
export { SharedCache } from './data/shared-cache.js'
export { timed } from './observe/timing.js'
