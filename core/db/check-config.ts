import type { DatabaseConfig } from './database.js'

/** What is wrong with the section `database` beyond its schema. Quotes no password. */
export function checkDatabase(
  config: DatabaseConfig,
): readonly { readonly keys: readonly string[]; readonly message: string }[] {
  return (['url', 'listenUrl'] as const).flatMap((key) => {
    const url = config[key]
    return url === undefined || isPostgresUrl(url) ? [] : [{ keys: [key], message: EXPECTED }]
  })
}

const EXPECTED =
  'must be a PostgreSQL URL: postgresql://user:password@host:5432/name, its special characters percent-encoded'

function isPostgresUrl(text: string): boolean {
  // A folder of unix sockets, as the driver takes it too.
  if (text.startsWith('/') || text.startsWith('socket:')) return true
  return URL.canParse(text) && ['postgres:', 'postgresql:'].includes(new URL(text).protocol)
}
