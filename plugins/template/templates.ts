import { type Answer, type Call, type Catalog, type Data, isAdmin, type Operations, placeholder } from 'rowhouse'
import {
  allNames,
  at,
  isUnder,
  type Json,
  type JsonObject,
  type Names,
  notExists,
  parseJson,
  ServiceError,
  serviceError,
} from 'rowhouse/plan'
import type { CallMetrics } from './call-metrics.js'
import type { Described, Meanings } from './meaning.js'
import { argument, fill, type ParameterPlace, parseTemplate, type Template } from './template.js'

export interface Stored {
  readonly name: string
  readonly comment: string | null
  readonly template: Template
}

/** The stored templates, parsed once for each snapshot of the catalog. */
export class Templates {
  private readonly read = new WeakMap<Catalog, ReadonlyMap<string, Stored>>()
  private readonly described = new WeakMap<Stored, Described>()

  constructor(
    private readonly data: Data,
    private readonly operations: Operations,
    private readonly meanings: Meanings,
    private readonly calls: CallMetrics,
  ) {}

  /** Returns the templates whose tables and columns exist, by name. */
  all(catalog: Catalog): ReadonlyMap<string, Stored> {
    const known = this.read.get(catalog)
    if (known) return known
    const broken = new Set(catalog.inconsistent.map(({ object }) => object))
    const all = new Map(
      catalog.templates
        .filter(({ name }) => !broken.has(`query-template ${name}`))
        .map(({ name, definition, comment }) => {
          return [name, { name, comment, template: parseTemplate(parseJson(definition), this.operations) }]
        }),
    )
    this.read.set(catalog, all)
    return all
  }

  /** @throws ServiceError 400 `not-exists` */
  find(name: string, catalog: Catalog, path: string): Stored {
    const stored = this.all(catalog).get(name)
    if (!stored) throw notExists(`query-template "${name}" does not exist`, path)
    return stored
  }

  /** Analyzes a template, with all columns. */
  describe(stored: Stored, catalog: Catalog): Described {
    let described = this.described.get(stored)
    if (!described) {
      described = this.meanings.describe(stored.template.definition, allNames(catalog))
      this.described.set(stored, described)
    }
    return described
  }

  /** Analyzes a template with the names that a role sees. */
  describeFor(stored: Stored, names: Names): Described {
    return this.meanings.describe(stored.template.definition, names)
  }

  /** Runs the query with arguments instead of its parameters, as if the caller had sent it. */
  execute(stored: Stored, args: JsonObject, call: Call, path: string): Promise<Answer> {
    call.name = stored.name
    return this.calls.measure(stored.name, () =>
      this.resolve(stored, args, path, (query, values) => this.operations.run(query, { ...call, values })),
    )
  }

  /**
   * Runs `fn` with the query that has arguments instead of its parameters, and the paths of the arguments in it.
   * @param path path of the arguments in the request, e.g. `$.args.args`
   */
  async resolve<T>(
    stored: Stored,
    args: JsonObject,
    path: string,
    fn: (query: Json, values: readonly string[]) => Promise<T>,
  ): Promise<T> {
    const { places, definition } = stored.template
    refuseDryRun(args, places, path)
    const values = new Map(places.map((place) => [place.path, valueOf(place, args, path)]))
    try {
      const query = fill(definition, this.operations, (place) => argument(place, values.get(place.path) as Json))
      return await fn(query, [...values.keys()])
    } catch (error) {
      throw error instanceof ServiceError ? located(error, places, path) : error
    }
  }

  /** Returns whether a role may run every query of a template, with any arguments. */
  async allowed(stored: Stored, call: Call): Promise<boolean> {
    try {
      for (const { operation, request } of this.meanings.requests(stored.template, (place) => placeholder(place))) {
        if (operation.admin && !isAdmin(call.session)) return false
        if (request) await this.data.check(request, call)
      }
      return true
    } catch (error) {
      if (error instanceof ServiceError && error.status < 500) return false
      throw error
    }
  }
}

function valueOf({ param, default: fallback }: ParameterPlace, args: JsonObject, path: string): Json {
  const given = args[param]
  if (given !== undefined) return given
  if (fallback !== undefined) return fallback
  throw serviceError('invalid-params', `parameter "${param}" is missing`, path)
}

/** Replaces the path of an error: that of the argument if an argument is wrong, otherwise that of the template. */
function located(error: ServiceError, places: readonly ParameterPlace[], path: string): ServiceError {
  if (isUnder(error.path, '$.headers')) return error
  const place = places.find((each) => isUnder(error.path, each.path))
  // The template is next to the arguments in the path; in a REST call the arguments are the root.
  if (!place) return error.under(`${path === '$' ? path : path.slice(0, path.lastIndexOf('.'))}.template`)
  const rest = error.path.slice(place.path.length)
  const message = `parameter "${place.param}": ${error.message}`
  return error.with({ message, path: at(path, place.param) + rest, cause: error })
}

export const DRY_RUN = 'dry_run'
/**
 * Refuses the argument `dry_run` unless it is a parameter. Other unknown arguments are ignored, but a caller that sends this
 * one expects that nothing is written.
 * @throws ServiceError 400 `invalid-params`
 */
function refuseDryRun(args: JsonObject, parameters: readonly { readonly param: string }[], path: string): void {
  if (args[DRY_RUN] === undefined || parameters.some(({ param }) => param === DRY_RUN)) return
  const message = 'the template has no parameter "dry_run"; the header "Prefer: tx=rollback" makes a request a dry run'
  throw serviceError('invalid-params', message, at(path, DRY_RUN))
}
