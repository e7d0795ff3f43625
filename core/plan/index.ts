/** The API for a front end's `lift` and `plan`. Pure and safe in a worker: no I/O, no pg, no koa. */
export type * from '../ir.js'
export { isGeo, isLongName, supports, TRUE } from '../ir.js'
export * from './aggregates.js'
export * from './boolexp.js'
export {
  AGGREGATE,
  type AggregateShape,
  type ExpShape,
  liftBoolExp,
  liftSearch,
  liftTableRef,
  type OpShape,
  Slots,
} from './lift-boolexp.js'
export {
  columnField,
  computedColumn,
  computedRelationship,
  type Given,
  needsNothing,
  planCall,
  planOrderTarget,
  planRank,
  planSource,
  readOrderText,
  searchOn,
  startsWith,
  unsortable,
} from './fields.js'
export { comparesAlways } from './guard.js'
export { behind, type Bound, nullsFirst, reversed, type SortKey, sortKeys } from './keyset.js'
export * from './names.js'
export * from './nested.js'
export * from './rows.js'
export { isPrimaryKey } from './price.js'
export { VERSION, versionOf, XMIN } from './names.js'
export { composedOf, constantAt, describe, encode, encodeArray, wholeNumber } from './encode.js'
export {
  castType,
  INT8,
  operatorName,
  operatorNames,
  operatorsFor,
  operatorsOn,
  type SearchShape,
  takesList,
  TEXT,
} from './operators.js'
export { sampleValue } from './sample-value.js'
export type * from '../catalog/catalog.js'
export { compareTables, permissionsOf, resultTable, tableKey, tableName } from '../catalog/catalog.js'
export * from '../catalog/graphql-names.js'
export {
  at,
  isUnder,
  notExists,
  parseFailed,
  permissionDenied,
  ServiceError,
  serviceError,
  under,
  unexpectedPayload,
} from '../errors.js'
export { isObject, refuseOtherKeys } from '../json/value.js'
export { splitArray, splitObject } from '../json/split.js'
export {
  indented,
  NO_LIMITS,
  type Json,
  type JsonObject,
  NumberText,
  parseJson,
  Rows,
  rowsOf,
  stringifyJson,
} from '../json/parse.js'
