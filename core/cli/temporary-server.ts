import { randomBytes } from 'node:crypto'
import { startServer } from '../host/server.js'
import { builtins, source, withDatabase } from './builtins.js'
import type { ConfigSource, Invocation } from './invocation.js'

/** The server refused an operation. */
export class Refusal extends Error {
  /** @param path place in the operation, beginning with `$.args` */
  constructor(
    readonly reason: string,
    readonly path: string,
    readonly code?: string,
  ) {
    super(`${reason.trimEnd()} (${path.replace('$.args', '$')})`)
  }
}

/** Runs an operation of the query API as admin. @param options.isDry rolls it back @throws Refusal */
export type Ask = (type: string, args: string, options?: { readonly isDry: boolean }) => Promise<string>

/** Runs `fn` with a temporary server on the database of a command. */
export const withOwnServer = <T>(invocation: Invocation, fn: (ask: Ask) => Promise<T>): Promise<T> =>
  withDatabase(invocation, (url) => withServer(url, invocation, fn))

/** Runs `fn` with a temporary server on a free port of this machine, with a random secret. */
export async function withServer<T>(url: string, from: ConfigSource, fn: (ask: Ask) => Promise<T>): Promise<T> {
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
  try {
    return await fn(async (type, args, { isDry } = { isDry: false }) => {
      const response = await fetch(`${server.url}/v1/query`, {
        method: 'POST',
        headers: { 'X-Service-Admin-Secret': adminSecret },
        body: `{"type":"${type}","args":${args},"dry_run":${isDry}}`,
      })
      const text = await response.text()
      if (response.ok) return text
      const { error, path, code } = JSON.parse(text) as { error: string; path: string; code: string }
      throw new Refusal(error, path, code)
    })
  } finally {
    await server.close()
  }
}
