import type { FieldNode } from 'graphql'
import { type Names, type Op, serviceError, SharedCache } from 'rowhouse/plan'
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
  })
  if (shape.root === undefined) return walker.query(operation)
  const nodes = walker.selected([operation]).get(shape.root) as readonly FieldNode[]
  const root = exposed(names, shape.dialect).mutation.get((nodes[0] as FieldNode).name.value)
  if (!root) throw serviceError('validation-failed', `no such mutation: "${shape.root}"`, '$.query')
  if (root.call) return walker.called(shape.root, nodes, root)
  if (shape.nested) return planNested(walker, nodes, root, shape.root, shape.rows as RowsShape, shape.nested)
  return planMutation(walker, nodes, root, shape.root, shape.rows, shape.index)
}

/** Parsed documents: each is planned for every root field and every shape of its variables. */
const documents = new SharedCache<Document>(16 * 2 ** 20)
/** Memory of a parsed document for each byte of its text. */
const PARSED = 10

function documentOf({ text, operationName }: GraphqlShape): Document {
  const key = JSON.stringify([operationName, text])
  let document = documents.get(key)
  if (!document) {
    document = readDocument(text, operationName)
    documents.set(key, document, PARSED * text.length)
  }
  return document
}
