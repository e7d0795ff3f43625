#!/usr/bin/env node
import module from 'node:module'
import { fileURLToPath } from 'node:url'
import { main } from './cli/main.js'
import { endSignal } from './processes/signals.js'

/** The password of a URL: `postgresql://user:password@host`, `?password=...`. */
const PASSWORD = /(:\/\/[^/@:\s]*:|[?&]password=)[^@&\s]+/g
// All users of the machine can read the arguments of a process, unless it changes its title.
const given = process.argv.join(' ')
const shown = given.replaceAll(PASSWORD, '$1...')
if (shown !== given) process.title = shown

// Node.js has it since version 22. In this package, because V8 trusts what it finds there. If the folder cannot be written,
// nothing is cached.
const { enableCompileCache } = module as { readonly enableCompileCache?: (folder: string) => unknown }
enableCompileCache?.(fileURLToPath(new URL('../compile-cache', import.meta.url)))

let signal: AbortSignal | undefined
const code = await main(process.argv.slice(2), {
  get stdin() {
    return process.stdin
  },
  get stdout() {
    return process.stdout
  },
  get stderr() {
    return process.stderr
  },
  env: process.env,
  cwd: process.cwd(),
  // Until a command asks for it, SIGINT and SIGTERM end this process immediately.
  get signal() {
    return (signal ??= endSignal())
  },
})
// Exits even if a plugin left a timer or a connection open, but only after standard output is flushed.
process.stdout.write('', () => process.exit(code))
