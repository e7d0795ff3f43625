import { definePlugin } from 'rowhouse'
import type {} from './greeter.js'

// A comment of the form "error TS..." says which error the next line must have.

definePlugin({
  name: 'needs-what-it-uses',
  needs: ['greeter'],
  setup: (host) => host.use('log').info(host.use('greeter').greet('you')),
})

definePlugin({
  name: 'core-services-need-no-declaration',
  setup: (host) => host.use('log').info(host.use('operations').types),
})

definePlugin({
  name: 'undeclared-need',
  needs: ['log'],
  // error TS2345
  setup: (host) => void host.use('greeter'),
})

definePlugin({
  name: 'no-needs-at-all',
  // error TS2345
  setup: (host) => void host.use('greeter'),
})

definePlugin({
  name: 'unknown-need',
  // error TS2322
  needs: ['nobody'],
  setup() {},
})

definePlugin({
  name: 'finds-what-it-wants',
  wants: ['greeter'],
  setup(host) {
    const found: string | undefined = host.find('greeter')?.greet('you')
    host.use('log').info(found)
    // error TS2532
    host.find('greeter').greet('you')
    // error TS2345
    host.use('greeter')
  },
})

definePlugin({
  name: 'finds-what-it-needs',
  needs: ['greeter'],
  setup: (host) => host.use('log').info(host.find('greeter')?.greet('you')),
})

definePlugin({
  name: 'undeclared-want',
  needs: ['log'],
  // error TS2345
  setup: (host) => void host.find('greeter'),
})

definePlugin({
  name: 'unknown-want',
  // error TS2322
  wants: ['nobody'],
  setup() {},
})

definePlugin({
  name: 'wrong-type-of-config',
  config: { type: 'object', properties: { size: { type: 'integer', default: 1 } } },
  // error TS2339
  setup: (_host, { size }) => void size.toUpperCase(),
})

definePlugin({
  name: 'default-is-always-there',
  config: { type: 'object', properties: { size: { type: 'integer', default: 1 } } },
  setup: (_host, { size }) => void size.toFixed(),
})

definePlugin({
  name: 'required-is-always-there',
  config: { type: 'object', required: ['size'], properties: { size: { type: 'integer' } } },
  setup: (_host, { size }) => void size.toFixed(),
})

definePlugin({
  name: 'optional-may-be-missing',
  config: { type: 'object', properties: { size: { type: 'integer' } } },
  // error TS18048
  setup: (_host, { size }) => void size.toFixed(),
})

definePlugin({
  name: 'greeter',
  // error TS2322
  setup() {},
})

definePlugin({
  name: 'greeter',
  // error TS2322
  setup: () => ({ greet: (name: number) => String(name) }),
})

definePlugin({
  name: 'service-without-declaration',
  // error TS2322
  setup: () => ({ hello: () => 'hi' }),
})

definePlugin({
  name: 'knows-kinds-of-providers',
  setup(host) {
    const name: string | undefined = host.providerName('sms')
    // error TS2345
    host.use('log').info({ name, other: host.providerName('pigeon') })
  },
})

definePlugin({
  name: 'arguments-have-the-type-of-their-schema',
  setup(host) {
    const properties = { by: { type: 'integer', default: 1 }, reason: { type: 'string' } } as const
    host.operation('count_up', {
      args: { type: 'object', required: ['to'], properties: { ...properties, to: { type: 'string' } } },
      run: async ({ by, to }) => ({ kind: 'text', text: by.toFixed() + to.trim() }),
    })
    host.operation('count_down', {
      args: { type: 'object', properties },
      // error TS18048
      run: async ({ reason }) => ({ kind: 'text', text: reason.trim() }),
    })
    host.operation('anything', {
      // error TS2322
      run: async (args) => ({ kind: 'text', text: args }),
    })
  },
})

definePlugin({
  name: 'needs-a-version-of-the-api',
  api: '^1.2',
  setup() {},
})

definePlugin({
  name: 'needs-no-such-version',
  // error TS2322
  api: '>=1',
  setup() {},
})
