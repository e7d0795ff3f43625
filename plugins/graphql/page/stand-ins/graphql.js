/** What graphiql-explorer uses of `graphql`: it calls `require`, and would bring all of it. */
export {
  getNamedType,
  GraphQLObjectType,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isLeafType,
  isNonNullType,
  isObjectType,
  isRequiredInputField,
  isScalarType,
  isUnionType,
  isWrappingType,
  parse,
  parseType,
  print,
  visit,
} from 'graphql'
