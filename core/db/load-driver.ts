import { createRequire } from 'node:module'

/**
 * Loads pg before anything else asks for it. Where there is no `navigator` (Node 20), it finds out whether Cloudflare runs
 * it by making a `Response`, for which Node loads all of `fetch`: half of what loading pg takes.
 */
const found = Object.getOwnPropertyDescriptor(globalThis, 'Response')
Reflect.deleteProperty(globalThis, 'Response')
try {
  createRequire(import.meta.url)('pg')
} finally {
  if (found) Object.defineProperty(globalThis, 'Response', found)
}
