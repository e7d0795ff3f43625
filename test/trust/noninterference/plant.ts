/** Changes of our own code that let a role tell something of what it may not see: the property has to find each. */
export const LEAKS: Readonly<Record<string, Leak>> = {
  'related conditions': {
    what: 'a condition through a relationship looks at rows that are hidden',
    code: [
      'core/plan/authorize-read.js',
      /inside\(exp\.where, remote, exp\.from !== undefined\)/,
      'condition(exp.where, remote, [table, ...around])',
    ],
  },
  'aggregate conditions': {
    what: 'a condition on what is computed of related rows computes it of hidden ones too',
    code: [
      'core/plan/authorize-read.js',
      /inside\(exp\.where, remote\),/,
      'condition(exp.where, remote, [table, ...around]),',
    ],
  },
  'related order': {
    what: 'rows are sorted by columns of hidden rows',
    code: ['core/plan/authorize-read.js', /where: selectFilter\(remote\), (by: target)/, '$1'],
  },
  'aggregate order': {
    what: 'rows are sorted by what is computed of hidden rows',
    code: ['core/plan/authorize-read.js', /, of, where: selectFilter\(remote\) \};/, ', of };'],
  },
  'rows outside of pages': {
    what: 'a page is said to have another one before or after it, which holds hidden rows only',
    code: [
      'core/plan/authorize-read.js',
      /const beyond = \(where\) => where && rows\(\{ \.\.\.read, where \}, table\)\.where;/,
      'const beyond = (where) => where;',
    ],
  },
  count: {
    what: 'hidden rows are counted',
    code: [
      'core/plan/authorize-read.js',
      /guard\(selectFilter\(table\), (condition\(count\.where, table\)), table, catalog\)/,
      '$1',
    ],
  },
  groups: {
    what: 'hidden rows are grouped',
    code: [
      'core/plan/authorize-read.js',
      /(checkGroups\(read, group\);\s*return \{ \.\.\.read), \.\.\.rows\(read, table\)/,
      '$1',
    ],
  },
  update: {
    what: 'hidden rows are updated',
    code: [
      'core/plan/authorize-write.js',
      /targets\(permission, update\.where, table, [^)]*\)/,
      'condition(update.where, table)',
    ],
  },
  delete: {
    what: 'hidden rows are deleted',
    code: [
      'core/plan/authorize-write.js',
      /targets\(permission, remove\.where, table, [^)]*\)/,
      'condition(remove.where, table)',
    ],
  },
  'rows of functions': {
    what: 'the rows of a computed field are not filtered',
    code: [
      'core/plan/authorize-read.js',
      /rowsOf\(read, (tableFor\(read\.table, 'select'\))\)/,
      '{ ...read, fields: fields(read.fields, $1) }',
    ],
  },
  functions: {
    what: 'a function that returns no rows of a table is called without its permission',
    code: ['core/plan/names.js', /result\s*\? roles\.includes\(role\)/, 'result ? true'],
  },
  columns: {
    what: 'every column may be selected',
    code: [
      'core/plan/names.js',
      /return (columnSet\(permissions\?\.\[action\]\?\.columns\);)/,
      "return action === 'select' && permissions?.select ? new Set(table.columns.map((each) => each.name)) : $1",
    ],
  },
  'names of columns': {
    what: 'a column that a role may not select is refused in other words than one that does not exist',
    code: [
      'core/plan/names.js',
      /throw (columnDenied\(table, name, action, path\));/,
      'throw column ? $1 : notExists(`column "${name}" does not exist`, path);',
    ],
  },
  'conditions that fail': {
    what: 'conditions that can fail are evaluated on hidden rows',
    code: [
      'core/plan/guard.js',
      /return and\(\[filter, \.\.\.safe, \.\.\.boxes, \{ kind: 'guarded', by: filter, of: and\(unsafe\) \}\]\)/,
      'return and([filter, wanted])',
    ],
  },
  'computed fields': {
    what: 'computed fields in conditions are computed for hidden rows',
    code: [
      'core/plan/guard.js',
      /return exp\.computed !== undefined \|\| (reads\(exp\.column\) \|\| !isTotal)/,
      'return $1',
    ],
  },
  'JSON paths': {
    what: 'JSON paths are evaluated on hidden rows, although some need a time zone',
    code: [
      'core/plan/guard.js',
      /(function isTotal\([^{]*\{[^{]*\{)(\s*switch)/,
      "$1 if (op.startsWith('path_')) return true; $2",
    ],
  },
  composites: {
    what: 'composite values of hidden rows are compared, although some cannot be',
    code: ['core/plan/guard.js', /return type\.enum === true \|\| [^;]*;/, 'return true;'],
  },
  patterns: {
    what: 'a pattern may end in its escape character, which only a row that matches the rest has refused',
    code: ['core/plan/encode.js', /\(pattern\.length - end\) % 2 === 0/, 'true'],
  },
  'texts of errors': {
    what: "PostgreSQL's words about what it was working on are passed on",
    code: ['core/db/disclosure.js', /\(reader && isAdmin\(reader\)\) \|\| origin\.ownValue/, 'true'],
  },
  'names of constraints': {
    what: 'a broken constraint of columns that the role does not know is named',
    code: ['core/db/disclosure.js', /return isKnown\(error, reader\);/, 'return true;'],
  },
  'hidden files': {
    what: 'a file that the role may not see is in the way of one of its own, and said to be',
    code: ['plugins/filestore/changes.js', /const visible = current && rules && [^;]*;/, 'const visible = current;'],
  },
}

export interface Leak {
  readonly what: string
  readonly code: readonly [file: string, piece: RegExp, to: string]
}
