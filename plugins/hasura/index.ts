import { definePlugin } from 'rowhouse'

/** The command `rowhouse import-hasura`. A server needs nothing of it. */
export default definePlugin({
  name: 'hasura',
  database: false,
  commands: [
    {
      name: 'import-hasura',
      summary: 'move the metadata of a Hasura project',
      usage:
        'rowhouse import-hasura DIR|FILE [--out FILE] [--source NAME] [--anonymous ROLE] [--apply] [--force] [--json] [--config FILE]',
      help: `Reads a Hasura project, its folder metadata, or an exported file (JSON or YAML; metadata version 1, 2 or 3), writes the
same for rowhouse metadata apply, and reports what has no equivalent. Exits with 1 if something was left, and with 2 if it
failed.

  --out FILE      file to write (default: metadata.json)
  --source NAME   PostgreSQL source to move (default: the one called default, otherwise the first)
  --anonymous ROLE
                  role of callers without credentials in Hasura, which is called anonymous here
  --apply         apply the metadata to the database, and report what the server refused
  --force         overwrite FILE, and replace metadata that the database has
  --json          print the report as JSON
  --config FILE   configuration file, for --apply`,
      flags: {
        out: 'string',
        source: 'string',
        anonymous: 'string',
        apply: 'boolean',
        force: 'boolean',
        json: 'boolean',
        config: 'string',
      },
      words: 1,
      failure: 2,
      standalone: true,
      run: async (context) => (await import('./command.js')).importHasura(context),
    },
  ],
  setup() {},
})
