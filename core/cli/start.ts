import type { Invocation } from '../cli.js'
import { canAuthenticate, startServer } from '../host/server.js'
import { serve } from './serve.js'
import { builtins, databaseUrl, readSections, source } from './setting.js'

/** A server for production: it guesses nothing. */
export async function start({ flags }: Invocation): Promise<number> {
  await databaseUrl(flags)
  if (!canAuthenticate((await readSections(flags)).values)) {
    throw new Error(
      'no way to authenticate: set ROWHOUSE_ADMIN_SECRET, or auth.jwt, auth.webhook or auth.gatewaySecret',
    )
  }
  return serve(await startServer({ ...source(flags), builtins: builtins() }))
}
