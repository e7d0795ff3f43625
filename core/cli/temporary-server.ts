import { randomBytes } from 'node:crypto'
import { type CommandContext, OperationRefused } from '../host/plugin.js'
import { startServer } from '../host/server.js'
import { builtins, source } from './builtins.js'
import type { ConfigSource } from './invocation.js'

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
      const response = await send(server.url, adminSecret, operation)
      const text = await response.text()
      if (response.ok) return text
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
    const response = await send(url, adminSecret, operation, AbortSignal.timeout(TIMEOUT_MS)).catch((error: Error) => {
      throw new Error(`cannot ask ${url}: ${reasonOf(error)}`, { cause: error })
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${url} answers ${response.status}: ${text.slice(0, 300)}`)
    return text
  }
}

const send = (
  url: string,
  adminSecret: string,
  [type, args, { isDry = false } = {}]: Parameters<CommandContext['ask']>,
  signal?: AbortSignal,
): Promise<Response> =>
  fetch(new URL('/v1/query', url), {
    method: 'POST',
    headers: { 'X-Service-Admin-Secret': adminSecret },
    body: `{"type":"${type}","args":${args},"dry_run":${isDry}}`,
    redirect: 'error',
    ...(signal ? { signal } : {}),
  })

/** Returns why a server did not answer, which `fetch` says in the cause. */
function reasonOf({ cause, message }: Error): string {
  const { code, message: inner = message } = (cause ?? {}) as { readonly code?: string; readonly message?: string }
  if (code === undefined) return inner
  return `${REASONS[code] ?? inner} (${code})`
}
const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'no server listens there',
  ENOTFOUND: 'there is no such host',
  ECONNRESET: 'the server closed the connection',
}
