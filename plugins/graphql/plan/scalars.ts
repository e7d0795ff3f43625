import { GraphQLFloat, GraphQLInt, GraphQLScalarType, Kind, type ValueNode } from 'graphql'
import { isFloat, isInt, numberOf } from './input.js'

/** Creates a scalar that takes more literals than the one of that name in GraphQL. */
const wider = (scalar: GraphQLScalarType, takes: (node: ValueNode) => boolean): GraphQLScalarType =>
  new GraphQLScalarType({
    ...scalar.toConfig(),
    parseLiteral: (node, variables) => (takes(node) ? null : scalar.parseLiteral(node, variables)),
  })

/** Whole numbers in any form. A column says how large they may be, and a limit has 64 bits. */
export const INT = wider(
  GraphQLInt,
  (node) => (node.kind === Kind.INT || node.kind === Kind.FLOAT) && isInt(numberOf(node.value)),
)
/** Also `NaN` and the infinities, which PostgreSQL has, and writes as texts. */
export const FLOAT = wider(GraphQLFloat, (node) => node.kind === Kind.STRING && isFloat(node.value))
