import type { Invocation } from '../cli.js'
import { canAuthenticate, NO_AUTHENTICATION } from '../host/listeners.js'
import { startServer } from '../host/server.js'
import { serve } from './serve.js'
import { builtins, databaseUrl, readSections, source, wantsDatabase } from './setting.js'

/** A server for production: it guesses nothing. */
export async function start({ flags }: Invocation): Promise<number> {
  if (await wantsDatabase(flags)) await databaseUrl(flags)
  if (!canAuthenticate((await readSections(flags)).values)) {
    throw new Error(NO_AUTHENTICATION)
  }
  return serve(await startServer({ ...source(flags), builtins: builtins() }))
}
