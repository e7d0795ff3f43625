import type { Invocation } from '../cli.js'
import { startServer } from '../host/server.js'
import { serve } from './serve.js'
import { builtins, databaseUrl, readSections, source } from './setting.js'

/** A server for production: it guesses nothing. */
export async function start({ flags }: Invocation): Promise<number> {
  await databaseUrl(flags)
  const { auth } = (await readSections(flags)).values
  if ((auth.adminSecret ?? auth.gatewaySecret ?? auth.jwt ?? auth.webhook) === undefined) {
    throw new Error(
      'no way to authenticate: set ROWHOUSE_ADMIN_SECRET, or auth.jwt, auth.webhook or auth.gatewaySecret',
    )
  }
  return serve(await startServer({ ...source(flags), builtins: builtins() }))
}
