import type { DatabaseConfig } from './config.js'

/** Returns the mistakes in the section `database` that its schema cannot detect. Quotes no password. */
export function checkDatabase(
  config: DatabaseConfig,
): readonly { readonly keys: readonly string[]; readonly message: string }[] {
  const { url, directUrl } = config
  const misspelt = (['url', 'directUrl'] as const).filter(
    (key) => config[key] !== undefined && !isPostgresUrl(config[key]),
  )
  return [
    ...misspelt.map((key) => ({ keys: [key], message: EXPECTED })),
    ...(directUrl !== undefined && url === undefined ? [{ keys: ['directUrl'], message: NO_POOLER }] : []),
  ]
}

const NO_POOLER = 'requires `database.url` (DATABASE_URL), the URL of the connection pooler'

const EXPECTED =
  'must be a PostgreSQL URL: postgresql://user:password@host:5432/name, with special characters percent-encoded'

function isPostgresUrl(text: string): boolean {
  // The driver also accepts a folder of unix sockets.
  if (text.startsWith('/') || text.startsWith('socket:')) return true
  return URL.canParse(text) && ['postgres:', 'postgresql:'].includes(new URL(text).protocol)
}
