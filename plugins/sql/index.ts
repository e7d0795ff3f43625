import { definePlugin } from 'rowhouse'
import { OWNER, READ_APPLIED, readFiles, statesOf, type Applied } from './files.js'

/** The commands `rowhouse migrate` and `rowhouse sql`, and the operation `migration_status`. */
export default definePlugin({
  name: 'sql',
  database: false,
  wants: ['data'],
  config: {
    type: 'object',
    properties: {
      dir: {
        type: 'string',
        default: './migrations',
        description: 'Folder of the SQL files that `rowhouse migrate up` runs.',
      },
    },
  },
  commands: [
    {
      name: 'migrate',
      usage: 'rowhouse migrate new NAME | up [N] | down [N] | status [--dir DIR] [--dry-run] [--config FILE]',
      summary: 'create, run, revert and list your own SQL files',
      help: `new creates the files DIR/<timestamp>_NAME.up.sql and .down.sql. up updates the schema svc_catalog, runs all files that have
not run, or the next N, and then applies the metadata in DIR/metadata.json, if there is one. down reverts the last file, or the
last N. status lists the files and exits with 1 if one was changed, or deleted, after it ran. Each file runs in a transaction,
unless its first line is "-- rowhouse: no transaction".

  --dir DIR       folder of the files (default: ./migrations, or plugins.sql.dir of the configuration)
  --dry-run       list the files that would run`,
      flags: { dir: 'string', 'dry-run': 'boolean' },
      words: 2,
      run: async (context, config) => (await import('./migrate.js')).migrate(context, config.dir),
    },
    {
      name: 'sql',
      usage: 'rowhouse sql [--config FILE] [ARGUMENTS OF PSQL]',
      summary: 'run psql in the database',
      help: `Runs psql, the terminal of PostgreSQL, in the configured database, or in the one of the data directory, with the login of the
server. All arguments but --config are those of psql. Unless somebody types, it stops at the first error.

  rowhouse sql                        open a prompt
  rowhouse sql -c 'select 1'          run a text of SQL
  rowhouse sql -1 -f dump.sql         run a file, such as a dump, in one transaction
  rowhouse sql -?                     explain the arguments of psql
`,
      verbatim: true,
      run: async (context) => (await import('./psql.js')).sql(context),
    },
  ],
  setup(host, { dir }) {
    const data = host.find('data')
    if (!data) return
    host.operation('migration_status', {
      admin: true,
      args: { type: 'object', properties: {}, additionalProperties: false },
      async run() {
        const applied = await data.query<Applied>(READ_APPLIED, [OWNER])
        const answer = await readFiles(dir).then(
          (files) => ({ dir, migrations: [...statesOf(files, applied)].map(([id, state]) => ({ id, state })) }),
          (error: Error) => ({
            dir,
            problem: error.message,
            migrations: applied.map(({ id }) => ({ id, state: 'applied' })),
          }),
        )
        return { kind: 'text', text: JSON.stringify(answer) }
      },
    })
  },
})
