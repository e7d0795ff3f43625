import { addressProblem } from 'rowhouse'
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { GraphQLSchema } from 'graphql'
import type { Services } from 'rowhouse'
import type { Mistake, StitchConfig } from './config.js'
import { loadSchema } from './load.js'
import { merge, type Merged } from './merge.js'
import { createRemote, type Remote } from './remote.js'

/** The configured schemas. A schema that cannot be loaded at the start is retried until it can. */
export interface Schemas {
  /** Returns the merged schema of those that are loaded; undefined while none is. */
  merged(): Merged | undefined
  remote(name: string): Remote
  /** Describes the schemas that are not loaded; undefined when all are. */
  problem(): string | undefined
  close(): void
}

const FIRST_WAIT_MS = 1_000
const LONGEST_WAIT_MS = 60_000

/** @throws Error with all mistakes of the configuration that the loaded schemas reveal */
export async function openSchemas(config: StitchConfig, log: Services['log']): Promise<Schemas> {
  refuse(mistakesOf(config))
  const names = Object.keys(config.schemas)
  const remotes = new Map(names.map((name) => [name, createRemote(name, config.schemas[name]!)]))
  const ending = new AbortController()
  const sources = new Map<string, GraphQLSchema>()
  const failures = new Map<string, string>()
  let current: Merged | undefined

  const load = async (name: string): Promise<GraphQLSchema | undefined> => {
    try {
      return await loadSchema(remotes.get(name)!, config.schemas[name]!, ending.signal)
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      if (config.schemas[name]!.sdl !== undefined) refuse([{ path: `.schemas.${name}.sdl`, message }])
      failures.set(name, message)
      if (!ending.signal.aborted) log.warn({ schema: name, err: error }, 'a schema could not be loaded')
      return undefined
    }
  }

  const retryLater = (name: string, waitMs: number): void => {
    void sleep(waitMs, undefined, { ref: false, signal: ending.signal }).then(
      () => retry(name, waitMs),
      () => {},
    )
  }
  const retry = async (name: string, waitMs: number): Promise<void> => {
    const source = await load(name)
    if (ending.signal.aborted) return
    if (source) {
      const { merged, mistakes } = merge(new Map([...sources, [name, source]]), config)
      if (mistakes.length === 0 && merged) {
        sources.set(name, source)
        failures.delete(name)
        current = merged
        log.info({ schema: name }, 'a schema was loaded')
        return
      }
      // The merged schema stays as it was.
      failures.set(name, listed(mistakes))
      log.error({ schema: name, mistakes }, 'a schema cannot be merged with the others')
    }
    retryLater(name, Math.min(waitMs * 2, LONGEST_WAIT_MS))
  }

  const close = () => {
    ending.abort()
    for (const remote of remotes.values()) remote.close()
  }
  try {
    const found = await Promise.all(names.map(async (name) => [name, await load(name)] as const))
    for (const [name, source] of found) if (source) sources.set(name, source)
    const { merged, mistakes } = merge(sources, config)
    refuse(mistakes)
    current = merged
  } catch (error) {
    close()
    throw error
  }
  for (const name of failures.keys()) retryLater(name, FIRST_WAIT_MS)
  return {
    merged: () => current,
    remote: (name) => remotes.get(name)!,
    problem() {
      if (failures.size === 0) return undefined
      return `degraded: ${[...failures].map(([name, why]) => `schema "${name}": ${why}`).join('; ')}`
    },
    close,
  }
}

/** Finds mistakes that do not depend on the schemas. */
function mistakesOf(config: StitchConfig): readonly Mistake[] {
  return Object.entries(config.schemas).flatMap(([name, schema]) => {
    const path = `.schemas.${name}`
    const mistakes: Mistake[] = []
    for (const key of ['url', 'schemaUrl'] as const) {
      const problem = schema[key] === undefined ? undefined : addressProblem(schema[key])
      if (problem !== undefined) mistakes.push({ path: `${path}.${key}`, message: problem })
    }
    if (schema.sdl !== undefined && schema.schemaUrl !== undefined) {
      mistakes.push({ path, message: 'has both "sdl" and "schemaUrl"; remove one of them' })
    }
    if (schema.sdl === undefined && schema.schemaUrl === undefined && !schema.introspect) {
      mistakes.push({ path, message: 'has no "sdl" and no "schemaUrl", and "introspect" is false' })
    }
    for (const header of schema.forwardHeaders) {
      if (!OWN_HEADERS.has(header.toLowerCase())) continue
      mistakes.push({
        path: `${path}.forwardHeaders`,
        message: `"${header}" belongs to one connection and cannot be forwarded`,
      })
    }
    for (const key of ['headers', 'schemaHeaders'] as const) {
      for (const [header, value] of Object.entries(schema[key])) {
        if (isHeader(header, value) && !OWN_HEADERS.has(header.toLowerCase())) continue
        mistakes.push({ path: `${path}.${key}`, message: `"${header}" cannot be sent as a header` })
      }
    }
    return mistakes
  })
}

/** Headers that the HTTP client sets itself. */
const OWN_HEADERS = new Set(
  'host connection keep-alive proxy-connection te trailer transfer-encoding upgrade expect content-length content-type content-encoding accept accept-encoding'.split(
    ' ',
  ),
)

function isHeader(name: string, value: string): boolean {
  try {
    http.validateHeaderName(name)
    http.validateHeaderValue(name, value)
    return true
  } catch {
    return false
  }
}

function refuse(mistakes: readonly Mistake[]): void {
  if (mistakes.length > 0) throw new Error(listed(mistakes))
}

function listed(mistakes: readonly Mistake[]): string {
  const count = mistakes.length === 1 ? 'one mistake' : `${mistakes.length} mistakes`
  const lines = mistakes.map(({ path, message }) => `  $.plugins.stitch${path}: ${message}`)
  return [`the configuration has ${count}:`, ...lines].join('\n')
}
