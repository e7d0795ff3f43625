import type { Answer, Call, Catalog, Data, Operations } from 'rowhouse'
import { allNames, at, type Json, type JsonObject, type Names, notExists, parseJson, ServiceError } from 'rowhouse/plan'
import { argument, type Described, type Meanings, members } from './meaning.js'
import { fill, parseTemplate, type Place, type Template } from './template.js'

export interface Stored {
  readonly name: string
  readonly comment: string | null
  readonly template: Template
}

/** The stored templates, read once for each snapshot of the catalog. */
export class Templates {
  private readonly data: Data
  private readonly operations: Operations
  private readonly meanings: Meanings
  private readonly read = new WeakMap<Catalog, ReadonlyMap<string, Stored>>()
  private readonly described = new WeakMap<Stored, Described>()

  constructor(data: Data, operations: Operations, meanings: Meanings) {
    this.data = data
    this.operations = operations
    this.meanings = meanings
  }

  /** Those that the database bears out, by name. */
  all(catalog: Catalog): ReadonlyMap<string, Stored> {
    const known = this.read.get(catalog)
    if (known) return known
    const broken = new Set(catalog.inconsistent.map(({ object }) => object))
    const all = new Map(
      catalog.templates
        .filter(({ name }) => !broken.has(`query-template ${name}`))
        .map(({ name, definition, comment }) => {
          return [name, { name, comment, template: parseTemplate(parseJson(definition)) }]
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

  /** What its parameters stand for and what it answers. */
  describe(stored: Stored, catalog: Catalog): Described {
    let described = this.described.get(stored)
    if (!described) {
      described = this.meanings.describe(stored.template.definition, allNames(catalog))
      this.described.set(stored, described)
    }
    return described
  }

  /** As `describe`, with the columns that a role sees. */
  plan(stored: Stored, names: Names): Described {
    return this.meanings.describe(stored.template.definition, names)
  }

  /**
   * Runs the query with arguments in place of its parameters, as if the caller had sent it.
   * @param path where the arguments stand in the request, e.g. `$.args.args`
   */
  async execute(stored: Stored, args: JsonObject, call: Call, path: string): Promise<Answer> {
    const { places, definition } = stored.template
    const values = new Map(places.map((place) => [place.path, valueOf(place, args, path)]))
    try {
      const query = fill(definition, (place) => argument(place, values.get(place.path) as Json))
      return await this.operations.run(query, call)
    } catch (error) {
      throw error instanceof ServiceError ? located(error, places, path) : error
    }
  }

  /** Whether a role may run every part of a template; arguments are not looked at. */
  async allowed(stored: Stored, call: Call): Promise<boolean> {
    const filled = fill(stored.template.definition, (place) => argument(place, sample(place)))
    try {
      for (const { query } of members(filled, '$')) await this.data.check(this.operations.lift(query), call)
      return true
    } catch (error) {
      if (error instanceof ServiceError && error.status < 500) return false
      throw error
    }
  }
}

/** Something that fits, for the sake of the shape. */
function sample({ use }: Place): Json {
  switch (use) {
    case 'count':
      return 1
    case 'rows':
      return [Object.create(null) as JsonObject]
    case 'list':
      return []
    case 'value':
    case 'text':
      return ''
  }
}

function valueOf({ param, default: fallback }: Place, args: JsonObject, path: string): Json {
  const given = args[param]
  if (given !== undefined) return given
  if (fallback !== undefined) return fallback
  throw new ServiceError(400, 'invalid-params', `missing parameter : "${param}"`, path)
}

/** An error about an argument points at the argument; any other at the template. */
function located(error: ServiceError, places: readonly Place[], path: string): ServiceError {
  const place = places.find((each) => isUnder(error.path, each.path))
  // The definition stands beside the arguments; those of a REST call are all there is.
  if (!place) return error.under(`${path === '$' ? path : path.slice(0, path.lastIndexOf('.'))}.template`)
  const rest = error.path.slice(place.path.length)
  const message = `when processing parameter "${place.param}" : ${error.message}`
  return new ServiceError(error.status, error.code, message, at(path, place.param) + rest, {
    cause: error,
    ...(error.internal === undefined ? {} : { internal: error.internal }),
  })
}

const isUnder = (path: string, place: string): boolean =>
  path === place || path.startsWith(`${place}.`) || path.startsWith(`${place}[`)
