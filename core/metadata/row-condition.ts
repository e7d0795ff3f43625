import { unexpectedPayload } from '../errors.js'
import type { Json } from '../json/parse.js'
import { arrayOf, type Operands, planBoolExp } from '../plan/boolexp.js'
import { constantAt } from '../plan/encode.js'
import { liftBoolExp, Slots } from '../plan/lift-boolexp.js'
import type { Names } from '../plan/names.js'
import { Printer } from '../sql/printer.js'
import type { Sql } from '../sql/text.js'
import type { Table } from '../catalog/catalog.js'
import { type Constant, constantsIn, type Judged, refuseRefused } from './constants.js'
import { variablesIn } from './permission.js'

/**
 * Prints a condition on a row of a table, and on rows that are related to it, as SQL with its values.
 * @param exp a BoolExp without session variables, because any writer may cause a change
 * @param row alias of the row
 * @param path of the condition in the definition, beginning with `$`
 * @throws ServiceError 400 with a path that begins with it
 */
export type PrintCondition = (exp: Json, row: Sql, path: string) => Sql

/** @param found is called with the constants of each condition */
export function conditionPrinter(
  table: Table,
  names: Names,
  judged: Judged,
  found: (constants: readonly Constant[]) => void = () => {},
): PrintCondition {
  return (exp, row, path) => {
    const slots = new Slots()
    const shape = liftBoolExp(exp, path, slots)
    const planned = planBoolExp(shape, table, names, path, constantOperands(slots.values))
    const constants = constantsIn(planned)
    refuseRefused(constants, judged)
    found(constants)
    return new Printer('literals').condition(planned, row)
  }
}

/** Converts the values of a condition to constants. */
function constantOperands(values: readonly Json[]): Operands {
  const fixed = (slot: number, path: string): Json => {
    const value = values[slot] as Json
    const [variable] = variablesIn(value)
    if (variable === undefined) return value
    throw unexpectedPayload(`any writer may change a row, so there is no session variable "${variable}" here`, path)
  }
  return {
    one: (slot, type, path) => constantAt(fixed(slot, path), type, path),
    list: (slot, type, path) => ({ list: constantAt(fixed(slot, path), arrayOf(type, path), path), ones: [] }),
  }
}
