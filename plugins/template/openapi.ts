import { answerSchema, type Catalog, type FindTable, type JsonSchema, tablesOf } from 'rowhouse'
import { isPrimaryKey, namesFor } from 'rowhouse/plan'
import { isJson } from './arguments.js'
import { parameterSchema } from './json-schema.js'
import type { Described, Parameter } from './meaning.js'
import type { Stored, Templates } from './templates.js'

/** Describes the templates that a role may run as an OpenAPI 3.1 document. */
export function openApi(list: readonly Stored[], role: string, catalog: Catalog, templates: Templates): JsonSchema {
  const names = namesFor(role, catalog)
  const find = tablesOf(names)
  return {
    openapi: '3.1.0',
    info: {
      title: 'Query templates',
      description: `The templates that the role "${role}" may run.`,
      version: catalog.version,
    },
    servers: [{ url: '/' }],
    security: [{}, { bearer: [] }, { adminSecret: [] }],
    paths: Object.fromEntries(
      list.map((stored) => [
        `/v1/template/${encodeURIComponent(stored.name)}`,
        pathItem(stored, templates.describeFor(stored, names), find),
      ]),
    ),
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        adminSecret: { type: 'apiKey', in: 'header', name: 'X-Service-Admin-Secret' },
      },
      parameters: {
        role: {
          name: 'X-Service-Role',
          in: 'header',
          description: 'One of the roles that the caller holds.',
          schema: { type: 'string' },
        },
      },
      responses: {
        refused: {
          description: 'An argument is wrong, or the role has no permission.',
          content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
        },
      },
      schemas: {
        Error: {
          type: 'object',
          properties: {
            path: { type: 'string', description: 'JSON path of the error in the request.' },
            error: { type: 'string' },
            code: { type: 'string' },
          },
          required: ['path', 'error', 'code'],
        },
      },
    },
  }
}

function pathItem({ name, comment }: Stored, described: Described, find: FindTable): JsonSchema {
  const { parameters, template, reads } = described
  const { responses = {}, header = [] } = conditionOf(described, find)
  const common = {
    ...(comment === null ? {} : { summary: comment }),
    tags: [template.definition['type']],
    responses: {
      '200': { description: 'The result of the query.', content: contents(described, find) },
      '400': { $ref: '#/components/responses/refused' },
      ...responses,
    },
  }
  const role = { $ref: '#/components/parameters/role' }
  const all = [...parameters.values()]
  return {
    ...(reads
      ? { get: { ...common, operationId: `get_${name}`, parameters: [role, ...header, ...all.map(inUrl)] } }
      : {}),
    post: {
      ...common,
      operationId: `post_${name}`,
      parameters: [role, ...(reads ? [] : header)],
      requestBody: requestBody(all),
    },
  }
}

/** Returns how the version of a row can be a condition of a request. */
function conditionOf(
  { operation, ops: [op] }: Described,
  find: FindTable,
): { readonly responses?: JsonSchema; readonly header?: readonly JsonSchema[] } {
  if (!op || operation.templatable === 'queries') return {}
  const header = (name: string) => [{ name, in: 'header', description: 'An ETag.', schema: { type: 'string' } }]
  if (op.kind === 'read' && op.version) {
    return {
      responses: { '304': { description: 'GET: the answer has not changed.' } },
      header: header('If-None-Match'),
    }
  }
  const table = op.kind === 'update' || op.kind === 'delete' ? find(op.table) : undefined
  if (!table || !('where' in op) || !isPrimaryKey(op.where, table)) return {}
  const content = { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } }
  return { responses: { '412': { description: 'The row has another version.', content } }, header: header('If-Match') }
}

function requestBody(parameters: readonly Parameter[]): JsonSchema {
  const required = parameters.filter((parameter) => parameter.required).map(({ name }) => name)
  return {
    required: required.length > 0,
    content: {
      'application/json': {
        schema: {
          type: 'object',
          properties: Object.fromEntries(parameters.map((parameter) => [parameter.name, parameterSchema(parameter)])),
          ...(required.length > 0 ? { required } : {}),
        },
      },
    },
  }
}

function inUrl(parameter: Parameter): JsonSchema {
  const { name, required } = parameter
  const schema = parameterSchema(parameter)
  return {
    name,
    in: 'query',
    required,
    ...(isJson(parameter) ? { content: { 'application/json': { schema } } } : { schema }),
  }
}

function contents({ operation, ops: [op] }: Described, find: FindTable): JsonSchema {
  if (operation.templatable === 'queries') {
    return { 'application/json': { schema: { type: 'array', description: 'The response of each member.' } } }
  }
  const schema = operation.answer ?? (op ? answerSchema(op, find) : {})
  const others = { 'application/x-ndjson': { schema: { type: 'string' } }, 'text/csv': { schema: { type: 'string' } } }
  return { 'application/json': { schema }, ...(operation.formats ? others : {}) }
}
