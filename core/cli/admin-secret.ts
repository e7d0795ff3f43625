import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isLoopback } from '../host/listener-config.js'
import { type ConfigSource, pathIn } from './invocation.js'
import { readSections } from './read-sections.js'

/** File of the secret that `rowhouse dev` creates. */
export const secretFile = (dataDir: string): string => join(dataDir, 'admin-secret')

/**
 * Returns the admin secret of a running server: that of `--admin-secret-file`, of the environment or of the configuration.
 * For a server on this machine it can also be the one that `rowhouse dev` created.
 */
export async function adminSecretFor(server: string, from: ConfigSource): Promise<string> {
  const { flags, env, cwd } = from
  if (!URL.canParse(server))
    throw new Error(`expected the URL of a server, such as http://localhost:8080, not "${server}"`)
  const url = new URL(server)
  const file = flags['admin-secret-file']
  if (typeof file === 'string') return await readSecret(pathIn(cwd, file))
  const given = env['ROWHOUSE_ADMIN_SECRET']
  if (given !== undefined) return given
  const { auth, dataDir } = (await readSections(from)).values
  const made = secretFile(dataDir)
  const isHere = isLoopback(url.hostname.replace(/^\[|\]$/g, ''))
  const found = auth.adminSecret ?? (isHere ? await readSecret(pathIn(cwd, made)).catch(() => undefined) : undefined)
  if (found !== undefined) return found
  const why = isHere ? `there is no ${made}, which rowhouse dev creates` : `${url.hostname} is another machine`
  throw new Error(`set ROWHOUSE_ADMIN_SECRET, or use --admin-secret-file: ${why}`)
}

const readSecret = async (file: string): Promise<string> => (await readFile(file, 'utf8')).trim()
