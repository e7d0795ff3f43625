import {
  buildASTSchema,
  type DefinitionNode,
  type FieldDefinitionNode,
  type GraphQLSchema,
  Kind,
  type ObjectTypeDefinitionNode,
  type TypeNode,
  validateSchema,
} from 'graphql'
import type { Mistake, StitchConfig } from './config.js'
import { nameNode } from './document.js'
import { type Extension, readExtension } from './extension.js'
import { type Origin, type RootKind, type Subschema, subschemaOf } from './subschema.js'

export interface Merged {
  readonly schema: GraphQLSchema
  /** By merged name. Scalars have no origin: schemas share them. */
  readonly types: ReadonlyMap<string, Origin>
  /** Root fields by merged name. */
  readonly roots: { readonly [O in RootKind]: ReadonlyMap<string, Origin> }
  /** By type and field of the merged schema, e.g. `customer.weather`. */
  readonly extensions: ReadonlyMap<string, Extension>
}

/**
 * Merges the schemas that are loaded.
 * @param sources by their names in the configuration
 * @returns the merged schema, undefined when it would be empty, and all mistakes
 */
export function merge(
  sources: ReadonlyMap<string, GraphQLSchema>,
  config: StitchConfig,
): { readonly merged: Merged | undefined; readonly mistakes: readonly Mistake[] } {
  const mistakes: Mistake[] = []
  const subschemas = new Map(
    [...sources].map(([name, source]) => [name, subschemaOf(name, source, config.schemas[name]?.prefix)]),
  )
  const types = new Map<string, Origin>()
  const scalars = new Map<string, string>()
  const roots = { query: new Map<string, Origin>(), mutation: new Map<string, Origin>() }
  const fields = { query: [] as FieldDefinitionNode[], mutation: [] as FieldDefinitionNode[] }
  const definitions: DefinitionNode[] = []

  /** Registers a name, or reports the schema that has it already. */
  const claim = (into: Map<string, Origin>, what: string, merged: string, origin: Origin): boolean => {
    const ofType = scalars.get(merged) ?? (RESERVED.has(merged) ? 'the merged schema' : undefined)
    const other = into.get(merged)?.schema ?? (into === types ? ofType : undefined)
    if (other === undefined) {
      into.set(merged, origin)
      return true
    }
    const message = `its ${what} "${merged}" is also one of "${other}"; give one of them a "prefix"`
    mistakes.push({ path: `.schemas.${origin.schema}`, message })
    return false
  }

  for (const { name: schema, prefix, types: own, roots: ownRoots } of subschemas.values()) {
    for (const node of own) {
      const merged = node.name.value
      if (node.kind === Kind.SCALAR_TYPE_DEFINITION) {
        if (scalars.has(merged)) continue
        if (types.has(merged)) claim(types, 'scalar', merged, { schema, name: merged })
        else definitions.push(node)
        scalars.set(merged, schema)
      } else if (claim(types, 'type', merged, { schema, name: merged.slice(prefix.length) })) {
        definitions.push(node)
      }
    }
    for (const root of ['query', 'mutation'] as const) {
      for (const node of ownRoots[root]) {
        const merged = prefix + node.name.value
        if (!claim(roots[root], `${root} field`, merged, { schema, name: node.name.value })) continue
        fields[root].push({ ...node, name: nameNode(merged), type: nullable(node.type) })
      }
    }
  }

  const extensions = extend(subschemas, types, definitions, config, mistakes)
  if (fields.query.length === 0) return { merged: undefined, mistakes }
  definitions.push(...rootType('Query', fields.query), ...rootType('Mutation', fields.mutation))
  const schema = buildASTSchema({ kind: Kind.DOCUMENT, definitions }, { assumeValidSDL: true })
  for (const { message } of validateSchema(schema)) mistakes.push({ path: '.schemas', message })
  return { merged: { schema, types, roots, extensions }, mistakes }
}

const RESERVED = new Set(['Query', 'Mutation', 'Subscription'])

/** Makes root fields nullable, so that the data of the other schemas remains if one schema is down. */
const nullable = (type: TypeNode): TypeNode => (type.kind === Kind.NON_NULL_TYPE ? type.type : type)

function rootType(name: string, fields: readonly FieldDefinitionNode[]): readonly ObjectTypeDefinitionNode[] {
  return fields.length === 0 ? [] : [{ kind: Kind.OBJECT_TYPE_DEFINITION, name: nameNode(name), fields }]
}

/** Reads the extensions of the configuration, and adds their fields to `definitions`. */
function extend(
  subschemas: ReadonlyMap<string, Subschema>,
  types: ReadonlyMap<string, Origin>,
  definitions: DefinitionNode[],
  config: StitchConfig,
  mistakes: Mistake[],
): ReadonlyMap<string, Extension> {
  const extensions = new Map<string, Extension>()
  const complete = Object.keys(config.schemas).every((name) => subschemas.has(name))
  for (const [i, entry] of config.extensions.entries()) {
    const path = `.extensions[${i}]`
    const target = subschemas.get(entry.from)
    const origin = types.get(entry.type)
    const owner = origin && subschemas.get(origin.schema)
    if (!Object.hasOwn(config.schemas, entry.from)) {
      mistakes.push({ path: `${path}.from`, message: `there is no schema "${entry.from}"` })
    }
    if (!owner && complete) mistakes.push({ path: `${path}.type`, message: `no schema has a type "${entry.type}"` })
    // Extensions of a schema that is not loaded yet are checked when it is.
    if (!target || !owner) continue
    const { extension, field, mistakes: found } = readExtension(entry, { owner, origin, target })
    mistakes.push(...found.map((mistake) => ({ ...mistake, path: path + mistake.path })))
    const key = `${entry.type}.${entry.field}`
    if (extensions.has(key)) mistakes.push({ path: `${path}.field`, message: `"${key}" is added twice` })
    if (!extension || !field) continue
    extensions.set(key, extension)
    definitions.push({ kind: Kind.OBJECT_TYPE_EXTENSION, name: nameNode(entry.type), fields: [field] })
  }
  return extensions
}
