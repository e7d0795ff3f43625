import type { Invocation } from '../cli.js'
import { canAuthenticate, NO_AUTHENTICATION } from '../host/listeners.js'
import { needsDatabase } from '../host/load.js'
import { loadServer, startLoaded } from '../host/server.js'
import { serve } from './serve.js'
import { NO_DATABASE } from './command-database.js'
import { builtins, source } from './builtins.js'
import { catchUncaught, pluginsOf } from './uncaught.js'

/** Starts a production server. Creates neither a database nor secrets. */
export async function start({ flags }: Invocation): Promise<number> {
  const options = { ...source(flags), builtins: builtins() }
  const uncaught = catchUncaught()
  const found = await uncaught.unless(loadServer(options))
  uncaught.plugins = pluginsOf(found.loaded)
  const { values } = found.config
  if (needsDatabase(found.loaded) && values.database.url === undefined) throw new Error(NO_DATABASE)
  if (!canAuthenticate(values)) throw new Error(NO_AUTHENTICATION)
  return serve(await uncaught.unless(startLoaded(found, options)), uncaught)
}
