import { type Infer, setting } from 'rowhouse'
import { timeoutMs } from '../../api.js'

const pointer = {
  type: 'string',
  pattern: '^(/([^~]|~[01])*)?$',
  description: 'JSON pointer (RFC 6901) into the response, e.g. "/messages/0/id".',
} as const
const values = {
  type: 'array',
  items: { type: 'string' },
  minItems: 1,
  description: 'Strings to compare with. Numbers and booleans in the response are compared as JSON text.',
} as const

export const config = {
  type: 'object',
  required: ['url', 'fields'],
  properties: {
    url: {
      type: 'string',
      pattern: '^https?://',
      description: 'URL of the gateway. Put keys into `headers` or `fields`, because the configuration shows the URL.',
    },
    method: setting.choice(['POST', 'PUT', 'GET'], 'POST', 'HTTP method. GET needs the format `query`.'),
    headers: {
      type: 'object',
      additionalProperties: { type: 'string', secret: true },
      default: {},
      description: 'Headers to send with each message, e.g. the API key.',
    },
    format: setting.choice(
      ['json', 'form', 'query'],
      'json',
      'Encoding of the fields: a JSON body, a form body, or the query string. The last two take only strings, numbers and booleans.',
    ),
    fields: {
      type: 'object',
      additionalProperties: true,
      secret: true,
      description:
        'Fields to send. Strings may contain {to}, {number}, {national}, {countryCode}, {message}, {id} and {from}.',
    },
    from: setting.text('Value of {from}.'),
    idPointer: {
      ...pointer,
      description: 'JSON pointer to the reference in the response. Defaults to the id of the message in Rowhouse.',
    },
    accepted: {
      type: 'object',
      required: ['pointer', 'values'],
      properties: { pointer, values },
      description: 'Location and values that mark a message as accepted in a 2xx response.',
    },
    refused: {
      type: 'object',
      required: ['pointer', 'values'],
      properties: { pointer, values },
      description: 'Location and values that mark a message as permanently rejected in any response.',
    },
    refusedStatuses: {
      type: 'array',
      items: { type: 'integer', minimum: 400, maximum: 599 },
      default: [400, 413, 422],
      description: 'Status codes that mean the message is permanently rejected.',
    },
    idempotencyHeader: {
      type: 'string',
      pattern: "^[0-9A-Za-z!#$%&'*+.^_`|~-]+$",
      description: 'Name of the header for the id of the message in Rowhouse.',
    },
    deduplicationSeconds: {
      type: 'integer',
      minimum: 1,
      description: 'Time for which the gateway ignores a repeated id. Set it only if the gateway guarantees that.',
    },
    timeoutMs,
  },
} as const

export type HttpConfig = Infer<typeof config>
