import type { Infer } from 'rowhouse'
import { timeoutMs } from '../../api.js'

const pointer = {
  type: 'string',
  pattern: '^(/([^~]|~[01])*)?$',
  description: 'JSON pointer (RFC 6901) into the answer, e.g. "/messages/0/id"',
} as const
const values = {
  type: 'array',
  items: { type: 'string' },
  minItems: 1,
  description: 'texts; numbers and booleans of the answer count as the texts they are written as',
} as const

export const config = {
  type: 'object',
  required: ['url', 'fields'],
  properties: {
    url: { type: 'string', pattern: '^https?://', description: 'where to send messages' },
    method: { type: 'string', enum: ['POST', 'PUT', 'GET'], default: 'POST', description: 'how; GET: as a query' },
    headers: {
      type: 'object',
      additionalProperties: { type: 'string', secret: true },
      default: {},
      description: 'sent with each message, e.g. the key',
    },
    format: {
      type: 'string',
      enum: ['json', 'form', 'query'],
      default: 'json',
      description: 'how the fields are sent: as a JSON or form body, or in the address',
    },
    fields: {
      type: 'object',
      additionalProperties: true,
      secret: true,
      description:
        'what is sent; its texts may hold {to}, {number}, {national}, {countryCode}, {message}, {id} and {from}',
    },
    from: { type: 'string', minLength: 1, description: 'what {from} stands for' },
    idPointer: {
      ...pointer,
      description: 'JSON pointer to the reference in the answer; absent: the reference is our id of the message',
    },
    accepted: {
      type: 'object',
      required: ['pointer', 'values'],
      properties: { pointer, values },
      additionalProperties: false,
      description: 'where an answer with status 2xx says whether the message was taken, and how it says so',
    },
    refused: {
      type: 'object',
      required: ['pointer', 'values'],
      properties: { pointer, values },
      additionalProperties: false,
      description: 'where any answer says that a message never can be sent, and how it says so',
    },
    refusedStatuses: {
      type: 'array',
      items: { type: 'integer', minimum: 400, maximum: 599 },
      default: [400, 413, 422],
      description: 'statuses that say that a message never can be sent',
    },
    idempotencyHeader: {
      type: 'string',
      pattern: "^[0-9A-Za-z!#$%&'*+.^_`|~-]+$",
      description: 'header that our id of the message goes into',
    },
    sendsOnceForSeconds: {
      type: 'integer',
      minimum: 1,
      description: 'for so long the gateway sends what it knows by our id only once; absent: it does not',
    },
    timeoutMs,
  },
  additionalProperties: false,
} as const

export type HttpConfig = Infer<typeof config>
