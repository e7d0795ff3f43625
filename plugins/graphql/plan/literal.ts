import {
  type ConstValueNode,
  Kind,
  type ListValueNode,
  type ObjectValueNode,
  type ValueNode,
  type VariableNode,
} from 'graphql'
import { type Input, NULL, type ScalarInput } from './input.js'

type ScalarNode = Exclude<ValueNode, VariableNode | ListValueNode | ObjectValueNode>

/** Reads a scalar of a document. Numbers keep all their digits. */
export function scalarIn(node: ScalarNode): ScalarInput {
  switch (node.kind) {
    case Kind.NULL:
      return NULL
    case Kind.INT:
    case Kind.FLOAT:
      return { kind: 'number', text: node.value }
    case Kind.STRING:
    case Kind.BOOLEAN:
      return { kind: 'literal', value: node.value }
    case Kind.ENUM:
      return { kind: 'enum', name: node.value }
  }
}

/** Reads a value of a document that cannot contain variables, whatever its type. */
export function constantIn(node: ConstValueNode): Input {
  if (node.kind === Kind.LIST) return { kind: 'list', of: node.values.map(constantIn) }
  if (node.kind !== Kind.OBJECT) return scalarIn(node)
  const fields = node.fields.map(({ name, value }) => [name.value, constantIn(value)] as const)
  return { kind: 'object', fields: Object.fromEntries(fields) }
}
