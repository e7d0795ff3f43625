import {
  type Data,
  isPlaceholder,
  type Operation,
  type Operations,
  placeholder,
  type Request,
  type Schema,
  type Services,
  type TemplateMeaning,
  type Use,
  valuesIn,
} from 'rowhouse'
import {
  type Column,
  constantAt,
  encodeList,
  INT8,
  isUnder,
  type Json,
  type Names,
  type Op,
  type Operand,
  serviceError,
  ServiceError,
  type SqlType,
  type Table,
  TEXT,
  under,
} from 'rowhouse/plan'
import { argument, fill, type ParameterPlace, parseTemplate, type Template } from './template.js'

/** A parameter with the type of the columns that its values are compared with or written to. */
export interface Parameter {
  readonly name: string
  readonly use: Use
  /** Type of the value, or of the elements of a list. Absent for rows. */
  readonly type?: SqlType
  /** Columns that rows can have. */
  readonly columns?: readonly Column[]
  readonly required: boolean
  readonly default?: Json
  /** Schema of the value, if the operation has one. */
  readonly schema?: Schema
}
/** A template with its parameters and plans. */
export interface Described {
  readonly template: Template
  readonly operation: Operation
  /** By name, in order of appearance. */
  readonly parameters: ReadonlyMap<string, Parameter>
  /** Plans of its queries, except those of operations without `lift`. */
  readonly ops: readonly Op[]
  /** Whether it only reads. */
  readonly reads: boolean
  /** Fixed values and defaults, which must be valid values of their types in PostgreSQL. */
  readonly constants: readonly Operand[]
}

/** Analyzes templates by planning them with placeholders for their parameters. */
export class Meanings {
  constructor(
    private readonly data: Data,
    private readonly operations: Operations,
    private readonly query: Services['query'],
  ) {}

  /** @throws ServiceError 400 with a path in the definition */
  readonly resolve = (definition: Json, names: Names): TemplateMeaning => this.describe(definition, names)

  describe(definition: Json, names: Names): Described {
    const template = parseTemplate(definition, this.operations)
    const placed = new Map<Json, ParameterPlace>()
    const ops: Op[] = []
    const fixed: Operand[] = []
    const types = new Map<string, SqlType>()
    const columns = new Map<string, readonly Column[]>()
    let reads = true
    for (const { request, path, open } of this.requests(template, (place) => placeholder(place, placed))) {
      const op = request && under(path, () => this.data.plan(request, names))
      if ((op?.kind !== 'read' && op?.kind !== 'count') || (op.kind === 'read' && op.from?.ahead)) reads = false
      if (!op) continue
      ops.push(op)
      for (const { value, type, path: here } of valuesIn(op, request.values)) {
        const each = Array.isArray(value) ? value : [value]
        const places = each.flatMap((one) => placed.get(one) ?? [])
        for (const place of places) {
          types.set(place.path, Array.isArray(value) || place.use === 'list' ? (type.element ?? type) : type)
        }
        if (places.length > 0 || value === null || each.some(isPlaceholder)) continue
        fixed.push(constantAt(value, type, `${path}${here.slice(1)}`))
      }
      if (op.kind !== 'insert') continue
      const table = names.table(op.table, 'insert', path)
      for (const { use, path, via } of open) if (use === 'rows') columns.set(path, columnsOf(table, names, via))
    }
    this.query.checkSteps(fill(template.definition, this.operations, placeholder), names, pathsOf(template))
    const typeOf = ({ use, path }: ParameterPlace): SqlType | undefined =>
      use === 'count' ? INT8 : use === 'text' ? TEXT : types.get(path)
    return {
      template,
      operation: this.operations.get(template.definition['type'] as string) as Operation,
      ops,
      reads,
      parameters: parametersOf(template.places, typeOf, (place) => columns.get(place.path)),
      constants: [
        ...fixed,
        ...template.places.flatMap((place) => this.constants(place, typeOf(place), template, names)),
      ],
    }
  }

  /**
   * Yields the database request of each query of a template.
   * @param valueOf returns the value or the placeholder for a parameter
   * @param given the place that has a value instead of a placeholder
   */
  *requests(
    template: Template,
    valueOf: (place: ParameterPlace) => Json,
    given?: ParameterPlace,
  ): Generator<MemberRequest> {
    const filled = fill(template.definition, this.operations, valueOf)
    for (const { query, path, open: references } of this.query.members(filled, pathsOf(template))) {
      const open = template.places.filter((place) => place.path !== given?.path && isUnder(place.path, path))
      const placeholders = [...references, ...open.map((place) => `$${place.path.slice(path.length)}`)]
      const request = under(path, () => this.operations.lift(query, placeholders))
      yield { operation: this.operations.get(query['type'] as string) as Operation, request, path, open }
    }
  }

  /** Checks the default of a place like an argument, and returns it. */
  private constants(
    place: ParameterPlace,
    type: SqlType | undefined,
    template: Template,
    names: Names,
  ): readonly Operand[] {
    const { use, path, default: value } = place
    if (value === undefined || value === null) return []
    const where = `${path}.default`
    if (use === 'rows' || use === 'count' || place.schema) {
      under(where, () => this.tryWith(place, value, template, names))
    }
    if (use === 'rows' || use === 'count' || !type) return []
    if (use === 'value' || use === 'text') return [constantAt(value, type, where)]
    if (!Array.isArray(value)) throw serviceError('parse-failed', 'expecting an array', where)
    const elements = value.filter((element) => element !== null)
    encodeList(elements, type, where)
    return elements.map((element) => constantAt(element, type, where))
  }

  private tryWith(place: ParameterPlace, value: Json, template: Template, names: Names): void {
    const valueOf = (other: ParameterPlace) => (other.path === place.path ? argument(other, value) : placeholder(other))
    try {
      for (const { request, path } of this.requests(template, valueOf, place)) {
        if (request) under(path, () => this.data.plan(request, names))
      }
    } catch (error) {
      if (!(error instanceof ServiceError) || !error.path.startsWith(place.path)) throw error
      throw new ServiceError(error.status, error.code, error.message, `$${error.path.slice(place.path.length)}`)
    }
  }
}

interface MemberRequest {
  readonly operation: Operation
  /** Undefined for an operation without `lift`. */
  readonly request: Request | undefined
  /** Path of the query, e.g. `$.args[1]`. */
  readonly path: string
  /** The places in it that have a placeholder. */
  readonly open: readonly ParameterPlace[]
}

const pathsOf = ({ places }: Template): readonly string[] => places.map(({ path }) => path)

/** Returns the columns that rows to insert can have. @param via the relationships that lead to them from `table` */
function columnsOf(table: Table, names: Names, [name, ...rest]: readonly string[] = []): readonly Column[] {
  const found = names.relationships(table).find(({ relationship }) => relationship.name === name)
  if (!found) return names.columns(table, 'insert')
  const { type, on } = found.relationship
  const columns = columnsOf(found.table, names, rest)
  const isDetermined = (name: string) => type === 'array' && on.some(([, column]) => column === name)
  return rest.length > 0 ? columns : columns.filter((column) => !isDetermined(column.name))
}

function parametersOf(
  places: readonly ParameterPlace[],
  typeOf: (place: ParameterPlace) => SqlType | undefined,
  columnsOf: (place: ParameterPlace) => readonly Column[] | undefined,
): ReadonlyMap<string, Parameter> {
  const parameters = new Map<string, Parameter>()
  for (const place of places) {
    const known = parameters.get(place.param)
    // A parameter is required if one of its places has no default.
    const required = (known?.required ?? false) || place.default === undefined
    if (known) {
      parameters.set(place.param, { ...known, required })
      continue
    }
    parameters.set(place.param, {
      name: place.param,
      use: place.use,
      required,
      type: typeOf(place),
      columns: columnsOf(place),
      default: place.default,
      schema: place.schema,
    })
  }
  return parameters
}
