import { isDeepStrictEqual } from 'node:util'
import { type BoolExp, type Catalog, operandsOf, type Table, tableKey, tableName } from 'rowhouse/plan'
import type { Finding } from './finding.js'
import { conjuncts, nameOf, ownColumns, rulesOf, type Subject } from './subject.js'

type Exists = Extract<BoolExp, { readonly kind: 'exists' }>

/**
 * Finds columns that a role may write although its own rules compare them with its session. A check that names the
 * column counts as a restriction, whatever it says.
 */
export function writableRules(subject: Subject, subjects: readonly Subject[], catalog: Catalog): readonly Finding[] {
  const filters = rulesOf(subject).filter(({ key }) => key === 'filter')
  const columns = new Set(filters.flatMap(({ exp }) => sessionColumns(exp, subject.table)))
  const memberships = filters.flatMap(({ action, exp }) => existsIn(exp).map((exists) => ({ action, exists })))
  return [
    ...[...columns].flatMap((column) => ownRows(subject, column)),
    ...memberships.flatMap(({ action, exists }) => {
      const table = catalog.tables.get(tableKey(exists.table))
      const other = subjects.find((each) => each.table === table && each.role === subject.role)
      return other && table ? joins(other, exists, `the ${nameOf(subject, action)}`) : []
    }),
  ]
}

/** Finds how a role may write a column of its rows that a filter compares. */
function ownRows(subject: Subject, column: string): readonly Finding[] {
  const { permissions, exp } = subject
  const { insert, update } = permissions
  const findings: Finding[] = []
  if (insert?.columns.includes(column) && !ownColumns(exp(insert.check)).has(column)) {
    findings.push({
      rule: 'caller-writable-rule',
      level: 'warning',
      object: nameOf(subject, 'insert'),
      path: '$.columns',
      message: `a caller may insert rows with any "${column}", so that they belong to others, whose rules compare it`,
      advice: `Set "${column}" in "set" instead of "columns", or compare it in the check.`,
    })
  }
  const isWritten = update?.columns.includes(column) === true
  if (!update || !isWritten || (update.check !== undefined && ownColumns(exp(update.check)).has(column)))
    return findings
  const isOwner = ownColumns(exp(update.filter)).has(column)
  findings.push({
    rule: 'caller-writable-rule',
    level: isOwner ? 'warning' : 'error',
    object: nameOf(subject, 'update'),
    path: '$.columns',
    message: isOwner
      ? `a caller may set "${column}" to any value and so give its rows to others, whose rules compare it`
      : `a caller may set "${column}" of rows of others to its own value, and then its rules allow these rows`,
    advice: `Remove "${column}" from "columns", or compare it in the check.`,
  })
  return findings
}

/** Finds how a role may write the rows that let it see others, such as memberships. */
function joins(member: Subject, { on, where }: Exists, name: string): readonly Finding[] {
  const { table, permissions, exp } = member
  const keys = on.map(([, inner]) => inner)
  // A row that others must have written first.
  if (containsKey(keys, table)) return []
  const { insert, update } = permissions
  const message = (verb: string) =>
    `a caller may ${verb} rows of ${tableName(table)} with any ${quoted(keys)}, and these decide what ${name} allows`
  const findings: Finding[] = []
  const free = (columns: readonly string[], check: BoolExp | undefined) =>
    keys.length > 0 &&
    keys.every((key) => columns.includes(key)) &&
    !keys.some((key) => check && ownColumns(check).has(key))
  const about = { rule: 'caller-writable-rule', level: 'error', path: '$.columns' } as const
  const advice = `Remove ${quoted(keys)} from "columns", or add a condition on it to the check.`
  if (insert && free(insert.columns, exp(insert.check)) && fits(insert, where)) {
    findings.push({ ...about, object: nameOf(member, 'insert'), message: message('insert'), advice })
  }
  if (update && free(update.columns, update.check === undefined ? undefined : exp(update.check))) {
    findings.push({ ...about, object: nameOf(member, 'update'), message: message('update'), advice })
  }
  return findings
}

/** Returns whether a role may insert a row that satisfies a condition. Only for simple conditions is that certain. */
function fits({ columns, set }: NonNullable<Subject['permissions']['insert']>, where: BoolExp): boolean {
  return conjuncts(where).every((part) => {
    if (part.kind !== 'compare' || part.op !== 'eq' || part.computed || part.cast) return false
    const preset = set.find(({ column }) => column === part.column)
    return preset ? isDeepStrictEqual(preset.to, part.to) : columns.includes(part.column)
  })
}

/**
 * Returns the columns of the row itself that decide by session variables. A key to which other rows refer is new in a new
 * row, so that it decides nothing.
 */
function sessionColumns(exp: BoolExp, table: Table): readonly string[] {
  switch (exp.kind) {
    case 'and':
    case 'or':
      return exp.of.flatMap((part) => sessionColumns(part, table))
    case 'not':
    case 'guarded':
      return sessionColumns(exp.of, table)
    case 'compare':
      return exp.to.kind === 'session' && !exp.computed ? [exp.column] : []
    case 'exists':
    case 'aggregate': {
      const columns = exp.on.map(([own]) => own)
      const decides = operandsOf(exp.where).some(({ kind }) => kind === 'session')
      return decides && !containsKey(columns, table) ? columns : []
    }
    case 'columns':
    case 'null':
    case 'sorted':
    case 'unknown':
    case 'known':
      return []
  }
}

const containsKey = (columns: readonly string[], { keys }: Table): boolean =>
  keys.some((key) => key.columns.every((column) => columns.includes(column)))

function existsIn(exp: BoolExp): readonly Exists[] {
  if (exp.kind === 'and' || exp.kind === 'or') return exp.of.flatMap(existsIn)
  if (exp.kind === 'guarded') return existsIn(exp.of)
  if (exp.kind !== 'exists') return []
  return operandsOf(exp.where).some(({ kind }) => kind === 'session') ? [exp] : []
}

const quoted = (columns: readonly string[]): string => columns.map((name) => `"${name}"`).join(', ')
