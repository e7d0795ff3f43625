import type { FieldNode } from 'graphql'
import { type Names, type Op, serviceError } from 'rowhouse/plan'
import { type Document, readDocument } from './document.js'
import { exposed } from './exposed.js'
import type { Args } from './input.js'
import { type NestedShape, planMutation, planNested, type RowsShape } from './mutation.js'
import { type Dialect, graphqlNames } from './names.js'
import { Walker } from './walk.js'
import { dropOldSchema } from './whole-schema.js'

export { default as prepare } from './prepare.js'

/** A document that has been prepared, without the values of its variables. */
export interface GraphqlShape {
  readonly dialect: Dialect
  readonly text: string
  readonly operationName?: string
  readonly variables: Args
  readonly maxCost: number
  /** Numbers that a client may not be able to hold are shown as text. */
  readonly digitsAsText?: boolean
  /** Of a mutation: which field is meant. */
  readonly root?: string
  /** Which entry of its `updates`. */
  readonly index?: number
  readonly rows?: RowsShape
  readonly nested?: NestedShape
}

/** Gives a document its meaning. Pure; runs in a worker on a cache miss. */
export default function plan(shape: GraphqlShape, all: Names): Op {
  dropOldSchema(all)
  const names = shape.dialect === 'modern' ? graphqlNames(all) : all
  const { operation, fragments } = held(shape)
  const walker = new Walker({
    names,
    dialect: shape.dialect,
    fragments,
    variables: shape.variables,
    maxCost: shape.maxCost,
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

/** The documents read last: each is planned for every root field and every shape of its variables. */
const documents = new Map<string, Document>()
const KEPT = 100

function held({ text, operationName }: GraphqlShape): Document {
  const key = JSON.stringify([operationName, text])
  let document = documents.get(key)
  if (!document) {
    document = readDocument(text, operationName)
    documents.set(key, document)
    if (documents.size > KEPT) documents.delete(documents.keys().next().value as string)
  }
  return document
}
