import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'
import https from 'node:https'
import { text as readText } from 'node:stream/consumers'
import { type CommandContext, OperationRefused } from '../host/plugin.js'
import { startServer } from '../host/server.js'
import { builtins } from './builtins.js'
import type { ConfigSource } from './invocation.js'
import { source } from './read-sections.js'

/** Runs operations of the query API as admin. */
interface Asked {
  ask: CommandContext['ask']
  close(): Promise<void>
}

/** Starts a server on a free port of this machine, with a random secret. */
export async function temporaryServer(url: string, from: ConfigSource): Promise<Asked> {
  const adminSecret = randomBytes(32).toString('base64url')
  const { overrides: _, ...options } = source(from)
  const server = await startServer({
    ...options,
    address: { host: '127.0.0.1', port: 0 },
    overrides: {
      database: { url },
      auth: { adminSecret, mode: 'direct' },
      log: { level: 'error' },
      compile: { threads: 0 },
    },
    builtins: builtins(),
  })
  return {
    async ask(...operation) {
      const { status, text } = await send(server.url, adminSecret, operation)
      if (status === 200) return text
      const { error, path, code } = JSON.parse(text) as { error: string; path: string; code: string }
      throw new OperationRefused(error, path, code)
    },
    close: () => server.close(),
  }
}

/** Maximum time of an operation on a running server, in milliseconds. */
const TIMEOUT_MS = 600_000

/** Returns what runs operations on a running server. */
export function runningServer(url: string, adminSecret: string): CommandContext['ask'] {
  return async (...operation) => {
    const { status, text } = await send(url, adminSecret, operation, AbortSignal.timeout(TIMEOUT_MS)).catch(
      (error: Error) => {
        throw new Error(`cannot ask ${url}: ${reasonOf(error)}`, { cause: error })
      },
    )
    if (status !== 200) throw new Error(`${url} answers ${status}: ${text.slice(0, 300)}`)
    return text
  }
}

/** Does without `fetch`, which takes a tenth of the time of a command to load. */
async function send(
  url: string,
  adminSecret: string,
  [type, args, { isDry = false } = {}]: Parameters<CommandContext['ask']>,
  signal?: AbortSignal,
): Promise<{ readonly status: number | undefined; readonly text: string }> {
  const place = new URL('/v1/query', url)
  const { request } = place.protocol === 'https:' ? https : http
  const asked = request(place, { method: 'POST', agent: false, ...(signal ? { signal } : {}) })
  asked.setHeader('X-Service-Admin-Secret', adminSecret)
  asked.end(`{"type":"${type}","args":${args},"dry_run":${isDry}}`)
  const [response] = (await once(asked, 'response')) as [http.IncomingMessage]
  return { status: response.statusCode, text: await readText(response) }
}

/** Returns why a server did not answer. */
function reasonOf({ code, cause, message }: Error & { readonly code?: string }): string {
  if (cause instanceof Error) return cause.message
  return code === undefined ? message : `${REASONS[code] ?? message} (${code})`
}
const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'no server listens there',
  ENOTFOUND: 'there is no such host',
  ECONNRESET: 'the server closed the connection',
}
