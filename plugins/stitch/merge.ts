import {
  buildASTSchema,
  type DefinitionNode,
  type FieldDefinitionNode,
  type GraphQLSchema,
  isScalarType,
  Kind,
  type ObjectTypeDefinitionNode,
  parse,
  printSchema,
  type TypeNode,
  validateSchema,
  visit,
} from 'graphql'
import type { Mistake, StitchConfig } from './config.js'
import { type Extension, readExtension } from './extension.js'

/** What a name of the merged schema is called where it comes from. */
export interface Origin {
  readonly schema: string
  readonly name: string
}
export interface Merged {
  readonly schema: GraphQLSchema
  /** By merged name. Scalars have no origin: they are the same everywhere. */
  readonly types: ReadonlyMap<string, Origin>
  /** Root fields by merged name. */
  readonly roots: { readonly [O in RootKind]: ReadonlyMap<string, Origin> }
  /** By type and field of the merged schema, `customer.weather`. */
  readonly extensions: ReadonlyMap<string, Extension>
}
export type RootKind = 'query' | 'mutation'

/** A schema as trees, with the names that it has in the merged one. */
export interface Part {
  readonly name: string
  readonly source: GraphQLSchema
  readonly prefix: string
  /** The merged name of a type. */
  rename(type: string): string
  readonly types: readonly DefinitionNode[]
  readonly roots: { readonly [O in RootKind]: readonly FieldDefinitionNode[] }
}

/**
 * Makes one schema of those that are there.
 * @param sources by the name of the configuration; those that could not be loaded yet are missing
 * @returns the schema of whatever is right, undefined when nothing is, and every mistake
 */
export function merge(
  sources: ReadonlyMap<string, GraphQLSchema>,
  config: StitchConfig,
): { readonly merged: Merged | undefined; readonly mistakes: readonly Mistake[] } {
  const mistakes: Mistake[] = []
  const parts = new Map(
    [...sources].map(([name, source]) => [name, partOf(name, source, config.schemas[name]?.prefix)]),
  )
  const types = new Map<string, Origin>()
  const scalars = new Map<string, string>()
  const roots = { query: new Map<string, Origin>(), mutation: new Map<string, Origin>() }
  const fields = { query: [] as FieldDefinitionNode[], mutation: [] as FieldDefinitionNode[] }
  const definitions: DefinitionNode[] = []

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

  for (const part of parts.values()) {
    for (const node of part.types) {
      if (!('name' in node) || !node.name) continue
      const merged = node.name.value
      if (node.kind === Kind.SCALAR_TYPE_DEFINITION) {
        if (scalars.has(merged)) continue
        if (types.has(merged)) claim(types, 'scalar', merged, { schema: part.name, name: merged })
        else definitions.push(node)
        scalars.set(merged, part.name)
      } else if (claim(types, 'type', merged, { schema: part.name, name: merged.slice(part.prefix.length) })) {
        definitions.push(node)
      }
    }
    for (const root of ['query', 'mutation'] as const) {
      for (const node of part.roots[root]) {
        const merged = `${part.prefix}${node.name.value}`
        if (!claim(roots[root], `${root} field`, merged, { schema: part.name, name: node.name.value })) continue
        fields[root].push({ ...node, name: { ...node.name, value: merged }, type: nullable(node.type) })
      }
    }
  }

  const { extensions, added } = extend(parts, types, config, mistakes)
  const merged = definitions.map((node): DefinitionNode => {
    const more = node.kind === Kind.OBJECT_TYPE_DEFINITION ? added.get(node.name.value) : undefined
    return more
      ? {
          ...(node as ObjectTypeDefinitionNode),
          fields: [...((node as ObjectTypeDefinitionNode).fields ?? []), ...more],
        }
      : node
  })
  const rootTypes = [rootType('Query', fields.query), rootType('Mutation', fields.mutation)].flat()
  if (fields.query.length === 0) return { merged: undefined, mistakes }
  const schema = buildASTSchema(
    { kind: Kind.DOCUMENT, definitions: [...merged, ...rootTypes] },
    { assumeValidSDL: true },
  )
  for (const { message } of validateSchema(schema)) mistakes.push({ path: '.schemas', message })
  return { merged: { schema, types, roots, extensions }, mistakes }
}

const RESERVED = new Set(['Query', 'Mutation', 'Subscription'])

function partOf(name: string, source: GraphQLSchema, prefix = ''): Part {
  const rename = (type: string) => (isScalarType(source.getType(type)) ? type : prefix + type)
  const rootNames = { query: source.getQueryType()?.name, mutation: source.getMutationType()?.name }
  const skipped = new Set([rootNames.query, rootNames.mutation, source.getSubscriptionType()?.name])
  const definitions = parse(printSchema(source), { noLocation: true }).definitions.filter(
    ({ kind }) => kind !== Kind.SCHEMA_DEFINITION && kind !== Kind.DIRECTIVE_DEFINITION,
  )
  const used = new Set<string>()
  const all = definitions.map((node) =>
    visit(node, {
      NamedType(type) {
        used.add(type.name.value)
        return { ...type, name: { ...type.name, value: rename(type.name.value) } }
      },
    }),
  )
  const isObjectType = (node: DefinitionNode) => node.kind === Kind.OBJECT_TYPE_DEFINITION
  const fieldsOf = (type: string | undefined) =>
    (all.filter(isObjectType) as ObjectTypeDefinitionNode[]).find((node) => node.name.value === type)?.fields ?? []
  return {
    name,
    source,
    prefix,
    rename,
    roots: { query: fieldsOf(rootNames.query), mutation: fieldsOf(rootNames.mutation) },
    types: all
      // A root type is left out unless something leads back to it.
      .filter((node) => !('name' in node && node.name && skipped.has(node.name.value) && !used.has(node.name.value)))
      .map((node) =>
        'name' in node && node.name
          ? ({ ...node, name: { ...node.name, value: rename(node.name.value) } } as DefinitionNode)
          : node,
      ),
  }
}

/** A schema that does not answer must not take the answers of the others with it. */
export const nullable = (type: TypeNode): TypeNode => (type.kind === Kind.NON_NULL_TYPE ? type.type : type)

function rootType(name: string, fields: readonly FieldDefinitionNode[]): readonly ObjectTypeDefinitionNode[] {
  if (fields.length === 0) return []
  return [{ kind: Kind.OBJECT_TYPE_DEFINITION, name: { kind: Kind.NAME, value: name }, fields }]
}

function extend(
  parts: ReadonlyMap<string, Part>,
  types: ReadonlyMap<string, Origin>,
  config: StitchConfig,
  mistakes: Mistake[],
) {
  const extensions = new Map<string, Extension>()
  const added = new Map<string, FieldDefinitionNode[]>()
  const complete = Object.keys(config.schemas).every((name) => parts.has(name))
  for (const [i, entry] of config.extensions.entries()) {
    const path = `.extensions[${i}]`
    const target = parts.get(entry.from)
    const origin = types.get(entry.type)
    const owner = origin && parts.get(origin.schema)
    if (!Object.hasOwn(config.schemas, entry.from)) {
      mistakes.push({ path: `${path}.from`, message: `there is no schema "${entry.from}"` })
    }
    if (!owner && complete) mistakes.push({ path: `${path}.type`, message: `no schema has a type "${entry.type}"` })
    // What belongs to a schema that could not be loaded is looked at when it is.
    if (!target || !owner) continue
    const { extension, field, mistakes: found } = readExtension(entry, { owner, origin, target })
    mistakes.push(...found.map((mistake) => ({ ...mistake, path: path + mistake.path })))
    const key = `${entry.type}.${entry.field}`
    if (extensions.has(key)) mistakes.push({ path: `${path}.field`, message: `"${key}" is added twice` })
    if (!extension || !field) continue
    extensions.set(key, extension)
    added.set(entry.type, [...(added.get(entry.type) ?? []), field])
  }
  return { extensions, added }
}
