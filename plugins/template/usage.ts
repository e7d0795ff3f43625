import { type Call, type Catalog, type Data, type Operation, permissionRole, roleName } from 'rowhouse'
import { type JsonObject, sampleValue, stringifyJson } from 'rowhouse/plan'
import type { CallMetrics } from './call-metrics.js'
import type { Described, Parameter } from './meaning.js'
import type { Templates } from './templates.js'

/** The operation that tells an admin which roles may run each template, and how often this process ran it. */
export function templateUsage(data: Data, templates: Templates, calls: CallMetrics): Operation {
  return {
    admin: true,
    undoable: true,
    args: { type: 'object', additionalProperties: false },
    async run(_args, call) {
      const catalog = data.catalogFor(call)
      const roles = rolesIn(catalog)
      const usage: JsonObject[] = []
      for (const stored of templates.all(catalog).values()) {
        const allowed: string[] = []
        for (const role of roles) if (await templates.allowed(stored, asRole(call, role))) allowed.push(role)
        const { count, totalMs } = calls.of(stored.name)
        usage.push({
          name: stored.name,
          roles: [...new Set(allowed.map(roleName))],
          calls: count,
          total_ms: Math.round(totalMs * 10) / 10,
          example: exampleOf(templates.describe(stored, catalog)),
        })
      }
      return { kind: 'text', text: stringifyJson({ templates: usage }) }
    },
  }
}

/** Returns all roles with permissions, those of backend requests as `permissionRole` names them. */
function rolesIn({ tables, functions }: Catalog): readonly string[] {
  const ofTables = [...tables.values()].flatMap(({ permissions }) => permissions.map(({ role }) => role))
  return [...new Set([...ofTables, ...functions.flatMap(({ roles }) => roles)])].sort()
}

function asRole(call: Call, key: string): Call {
  const role = roleName(key)
  const backend = permissionRole({ role, backend: true }) === key
  return { ...call, session: { role, backend, variables: new Map(), via: 'internal' } }
}

/** Returns arguments with which the template can be planned: one for each parameter that needs one. Null: unknown. */
function exampleOf({ parameters }: Described): JsonObject | null {
  const needed = [...parameters.values()].filter(({ required }) => required)
  const values = needed.map((parameter) => [parameter.name, valueOf(parameter)] as const)
  return values.some(([, value]) => value === undefined) ? null : (Object.fromEntries(values) as JsonObject)
}

function valueOf({ use, type }: Parameter) {
  const value = type && sampleValue(type)
  switch (use) {
    case 'count':
      return 10
    case 'rows':
      return undefined
    case 'list':
      return value === undefined ? undefined : [value]
    case 'value':
    case 'text':
      return value
  }
}
