import { poolSizes, processesWithin } from '../db/pool-sizes.js'
import { canAuthenticate, NO_AUTHENTICATION } from '../host/listener-config.js'
import { needsDatabase } from '../host/load.js'
import { loadServer, migrationSets, type ServerOptions, startLoaded } from '../host/server.js'
import { createLogger, type Logger } from '../observe/log.js'
import { processesThatFit } from '../processes/machine.js'
import { serviceManager } from '../processes/service-manager.js'
import { supervised } from '../processes/siblings.js'
import { supervise } from '../processes/supervisor.js'
import { explainRefusal } from './rights.js'
import { serve } from './serve.js'
import { NO_DATABASE } from './command-database.js'
import { builtins } from './builtins.js'
import type { ConfigSource, Invocation } from './invocation.js'
import { catchingUncaught, pluginsOf } from './uncaught.js'
import { messageOf } from '../errors.js'
import { readSections, source } from './read-sections.js'

/** Starts a production server. Creates neither a database nor secrets. */
export function start(invocation: Invocation): Promise<number> {
  // By default, the signal ends the process immediately and its requests fail.
  const ignore = () => {}
  process.on('SIGHUP', ignore)
  return startOrSupervise(invocation).finally(() => process.off('SIGHUP', ignore))
}

async function startOrSupervise(invocation: Invocation): Promise<number> {
  const siblings = supervised()
  if (siblings?.isReplacement) return run(invocation, { siblings }).catch(logged)
  if (invocation.flags['processes'] !== undefined && !siblings)
    return supervise(await processesOf(invocation), createLogger({ level: 'info' }))
  return run(invocation, { siblings })
}

/** Runs what plugins do in the background, such as sending queued messages, without serving requests. */
export function worker(invocation: Invocation): Promise<number> {
  const { config, host = '127.0.0.1', port } = invocation.flags
  const address = port === undefined ? undefined : { host: String(host), port: Number(port) }
  return run({ ...invocation, flags: { config } }, { isWorker: true, address })
}

type How = Pick<ServerOptions, 'isWorker' | 'address'> & { readonly siblings?: ReturnType<typeof supervised> }

function run(invocation: Invocation, how: How): Promise<number> {
  return catchingUncaught(invocation, async (uncaught) => {
    const options = { ...source(invocation), builtins: builtins(), ...how }
    const found = await uncaught.unless(loadServer(options))
    uncaught.plugins = pluginsOf(found.loaded)
    const { values } = found.config
    if (needsDatabase(found.loaded) && values.database.url === undefined) throw new Error(NO_DATABASE)
    if (!how.isWorker && !canAuthenticate(values)) throw new Error(NO_AUTHENTICATION)
    const starting = startLoaded(found, options).catch(explainRefusal(values.database.url, migrationSets(found.loaded)))
    const server = await uncaught.unless(starting)
    const warn = () => how.siblings ?? server.log.warn(RELOADS)
    process.on('SIGHUP', warn)
    if (how.siblings) how.siblings.ready(values.shutdownTimeoutMs)
    else tellManager(server.log, invocation.terminal.signal)
    const { retired } = how.siblings ?? {}
    return serve(server, uncaught, invocation, { retired }).finally(() => process.off('SIGHUP', warn))
  })
}

/** The supervisor tells it for its processes. */
function tellManager(log: Logger, ends: AbortSignal): void {
  const manager = serviceManager(log)
  void manager.ready()
  ends.addEventListener('abort', () => void manager.stopping(), { once: true })
}

function logged(error: unknown): number {
  createLogger({ level: 'info' }).error({ error: messageOf(error) }, 'this process did not start')
  return 1
}

/** Returns the number of processes that `--processes` asks for. @throws Error */
export async function processesOf(from: ConfigSource): Promise<number> {
  const text = String(from.flags['processes'])
  const { database } = (await readSections(from)).values
  if (text === 'auto') return Math.max(1, Math.min(processesThatFit(), processesWithin(database)))
  const count = Number(text)
  if (!Number.isInteger(count) || count < 1 || count > MAX) throw new Error(`--processes must be auto, or 1 to ${MAX}`)
  poolSizes(database, count)
  return count
}

const MAX = 256
const RELOADS = 'SIGHUP reads the configuration again only with --processes; restart the server instead'
