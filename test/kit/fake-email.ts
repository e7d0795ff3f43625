import { defineProvider } from '../../core/index.js'
import { senderOf } from './sender.js'

/** Does what `fakeSender(key)` is told. */
export default defineProvider({
  kind: 'email',
  name: 'fake',
  config: { type: 'object', required: ['key'], properties: { key: { type: 'string' } } },
  create: ({ key }) => senderOf(key),
})
