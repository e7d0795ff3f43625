import type { PluginCommand } from 'rowhouse'

/**
 * The commands of the query API: each asks a server for operations of this plugin, and prints the answer for people or scripts.
 * Their code is imported when one runs.
 */
export const commands: readonly PluginCommand[] = [
  {
    name: 'track',
    usage: 'rowhouse track [--all | --schema S... | TABLE...] [--dry-run] [--json] [--config FILE]',
    summary: 'track the tables, foreign keys and functions of an existing database',
    help: `Tracks tables and views, makes relationships of their foreign keys, and tracks functions that return rows of them.
Run it again after you add tables: it changes nothing that is tracked. Without arguments it shows what it would track.

  --all           all schemas except those of PostgreSQL, of extensions and of Rowhouse
  --schema S      only this schema; may be repeated
  TABLE           only this table: article, or other.article outside of the schema public
  --dry-run       show what would be tracked, and change nothing
  --json          print the response of the operation track_all`,
    flags: { all: 'boolean', schema: 'list', 'dry-run': 'boolean', json: 'boolean' },
    words: Infinity,
    run: async (context) => (await import('./track.js')).track(context),
  },
  {
    name: 'why',
    usage:
      'rowhouse why ROLE OPERATION TABLE [COLUMN=VALUE...] [--user ID] [--session NAME=VALUE...] [--object JSON] [--json]',
    summary: 'explain why a role may or may not read or write a row',
    help: `Shows which parts of the permission are true or false for the row, and the values that they compare. Writes are tried
and rolled back. Exits with 1 if the role may not, and with 2 after an error.

  OPERATION       select, insert, update or delete
  COLUMN=VALUE    the key of the row; not for an insert
  --user ID       the user id, X-Service-User-Id
  --session N=V   another session variable; may be repeated
  --object JSON   the row to insert, or the columns to update
  --json          print the response of the operation explain_permission`,
    flags: { user: 'string', session: 'list', object: 'string', json: 'boolean' },
    words: Infinity,
    failure: 2,
    run: async (context) => (await import('./why.js')).why(context),
  },
  {
    name: 'lint',
    usage: 'rowhouse lint [--level error|warning|info] [--json | --sarif [--file FILE]] [--config FILE]',
    summary: 'find likely mistakes in permissions and query templates',
    help: `Reads the metadata and asks PostgreSQL for the plans of row filters. Changes nothing. Exits with 1 if it finds
something, and with 2 after an error.

  --level L       lowest level to report (default: warning)
  --json          print the response of the operation lint_metadata
  --sarif         print SARIF 2.1.0, for code scanning
  --file FILE     file of the metadata in the repository, for --sarif (default: metadata.json)`,
    flags: { level: 'string', json: 'boolean', sarif: 'boolean', file: 'string' },
    words: 0,
    failure: 2,
    run: async (context) => (await import('./lint.js')).lint(context),
  },
  {
    name: 'advise',
    usage: 'rowhouse advise [URL] [--try] [--json] [--admin-secret-file F] [--config FILE]',
    summary: 'propose indexes for query templates, row filters and slow statements',
    help: `Prints statements that create indexes, with the costs of queries before and after as PostgreSQL estimates them. Creates
nothing that remains.

  URL             ask this running server, which counts calls and slow statements; the admin secret is that of
                  ROWHOUSE_ADMIN_SECRET, of the configuration, or the one that rowhouse dev created
  --try           create each index, plan with it, and roll back. Writes to the table wait meanwhile. Not needed with the
                  extension hypopg
  --json          print the response of the operation advise_indexes
  --admin-secret-file F
                  read the admin secret for URL from this file, such as .rowhouse/admin-secret`,
    flags: { try: 'boolean', json: 'boolean', 'admin-secret-file': 'string' },
    words: 1,
    run: async (context) => (await import('./advise.js')).advise(context),
  },
  {
    name: 'metadata',
    usage: 'rowhouse metadata export [FILE] | apply FILE [--dry-run] | diff FILE [--json] [--config FILE]',
    summary: 'export, compare and apply tracked tables, relationships and permissions',
    help: `export writes all metadata as JSON to FILE, or to standard output. apply replaces all metadata with the contents of
FILE, or changes nothing if it fails. diff lists what apply would change, with what each role could then do more or less, and
exits with 1 if there are changes. Errors exit with 2.

  --dry-run       list the changes of apply, and try them without a trace: what apply would refuse is refused
  --json          print the response of the operation diff_metadata`,
    flags: { 'dry-run': 'boolean', json: 'boolean' },
    words: 2,
    failure: 2,
    run: async (context) => (await import('./metadata.js')).metadata(context),
  },
]
