import { defineProvider } from 'rowhouse'

defineProvider({
  kind: 'sms',
  name: 'complete',
  create: () => ({ send: async () => ({ id: '1', detail: '' }) }),
})

defineProvider({
  kind: 'sms',
  name: 'receipt-without-id',
  // error TS2322
  create: () => ({ send: async () => ({ detail: '' }) }),
})

defineProvider({
  kind: 'storage',
  name: 'store-without-delete',
  // error TS2322
  create: () => ({ put: async () => ({ size: 0 }), get: () => Promise.reject(new Error('empty')) }),
})

// error TS2322
defineProvider({ kind: 'pigeon', name: 'unknown-kind', create: () => ({}) })

defineProvider({
  kind: 'email',
  name: 'wrong-type-of-config',
  config: { type: 'object', required: ['host'], properties: { host: { type: 'string' } } },
  // error TS2339
  create: ({ port }) => ({ send: async () => ({ id: String(port), detail: '' }) }),
})
