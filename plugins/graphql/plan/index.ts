import type { FieldNode } from 'graphql'
import { type Names, type Op, serviceError } from 'rowhouse/plan'
import { type Document, readDocument } from './document.js'
import { exposed } from './exposed.js'
import type { Args } from './input.js'
import { type NestedShape, planMutation, planNested, type RowsShape } from './mutation.js'
import { type Dialect, graphqlNames } from './names.js'
import { dropOldSchema } from './schema.js'
import { Walker } from './walk.js'

export { default as prepare } from './prepare.js'

/** A prepared document, without the values of its variables. */
export interface GraphqlShape {
  readonly dialect: Dialect
  readonly text: string
  readonly operationName?: string
  readonly variables: Args
  /** Whether bigint and numeric are returned as strings. */
  readonly digitsAsText?: boolean
  /** Key of the root field of a mutation to plan. */
  readonly root?: string
  /** Index of the entry of its `updates` to plan. */
  readonly index?: number
  /** Slot of the value that continues a stream. */
  readonly after?: number | undefined
  readonly rows?: RowsShape
  readonly nested?: NestedShape
}

/** Plans a document. Pure; runs in a worker on a cache miss. */
export default function plan(shape: GraphqlShape, all: Names): Op {
  dropOldSchema(all)
  const names = shape.dialect === 'alpha' ? all : graphqlNames(all)
  const { operation, fragments } = documentOf(shape)
  const walker = new Walker({
    names,
    dialect: shape.dialect,
    fragments,
    variables: shape.variables,
    digitsAsText: shape.digitsAsText ?? false,
    after: shape.after,
  })
  if (shape.root === undefined) return walker.query(operation)
  const nodes = walker.selected([operation]).get(shape.root) as readonly FieldNode[]
  const root = exposed(names, shape.dialect).mutation.get((nodes[0] as FieldNode).name.value)
  if (!root) throw serviceError('validation-failed', `no such mutation: "${shape.root}"`, '$.query')
  if (root.call) return walker.called(shape.root, nodes, root)
  if (shape.nested) return planNested(walker, nodes, root, shape.root, shape.rows as RowsShape, shape.nested)
  return planMutation(walker, nodes, root, shape.root, shape.rows, shape.index)
}

/** The most recently parsed documents: each is planned for every root field and every shape of its variables. */
const documents = new Map<string, Document>()
const MAX_DOCUMENTS = 100
/** Longer ones are parsed each time, because a parsed document takes ten times the memory of its text. */
const MAX_LENGTH = 16 * 1024

function documentOf({ text, operationName }: GraphqlShape): Document {
  const key = JSON.stringify([operationName, text])
  let document = documents.get(key)
  if (!document) {
    document = readDocument(text, operationName)
    if (text.length > MAX_LENGTH) return document
    documents.set(key, document)
    if (documents.size > MAX_DOCUMENTS) documents.delete(documents.keys().next().value as string)
  }
  return document
}
