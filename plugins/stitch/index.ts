import { definePlugin } from 'rowhouse'
import { config } from './config.js'
import { stitchRoutes } from './http.js'
import { openSchemas } from './schemas.js'

/** Several GraphQL services as one. Loaded alone it is a proxy of its own, without a database. */
export default definePlugin({
  name: 'stitch',
  database: false,
  config,
  async setup(host, options) {
    const schemas = await openSchemas(options, host.use('log'))
    host.onClose(() => schemas.close())
    host.health('schemas', () => {
      if (!schemas.merged()) throw new Error(schemas.weakness() ?? 'no schema is loaded')
      return schemas.weakness()
    })
    if (options.credentials === 'pass') {
      // Who that is, only the schemas know: here it is nobody.
      const nobody = { role: 'anonymous', variables: new Map([['x-service-user-id', '0']]), via: 'anonymous' } as const
      host.authenticator(({ header }) => (/^bearer /i.test(header('authorization') ?? '') ? nobody : null))
    }
    host.link('GraphQL of all schemas', options.path)
    stitchRoutes(host, schemas, options)
  },
})
