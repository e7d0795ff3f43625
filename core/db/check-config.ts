import type { DatabaseConfig } from './config.js'

/** What is wrong with the section `database` beyond its schema. Quotes no password. */
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

const NO_POOLER = 'is the database behind the pooler of `database.url` (DATABASE_URL), which is not set'

const EXPECTED =
  'must be a PostgreSQL URL: postgresql://user:password@host:5432/name, its special characters percent-encoded'

function isPostgresUrl(text: string): boolean {
  // A folder of unix sockets, as the driver takes it too.
  if (text.startsWith('/') || text.startsWith('socket:')) return true
  return URL.canParse(text) && ['postgres:', 'postgresql:'].includes(new URL(text).protocol)
}
