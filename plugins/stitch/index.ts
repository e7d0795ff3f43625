import { definePlugin } from 'rowhouse'
import { config } from './config.js'
import { stitchRoutes } from './http.js'
import { openSchemas } from './schemas.js'

/** Merges several GraphQL services into one API. As the only plugin it is a proxy that needs no database. */
export default definePlugin({
  name: 'stitch',
  database: false,
  config,
  async setup(host, options) {
    const schemas = await openSchemas(options, host.use('log'))
    host.onClose(() => schemas.close())
    host.health('schemas', () => {
      if (!schemas.merged()) throw new Error(schemas.problem() ?? 'no schema is loaded')
      return schemas.problem()
    })
    if (options.credentials === 'pass') {
      // Only the schemas can check the token, so its bearer is anonymous here.
      const anonymous = {
        role: 'anonymous',
        variables: new Map([['x-service-user-id', '0']]),
        via: 'anonymous',
      } as const
      host.authenticator(({ header }) => (/^bearer /i.test(header('authorization') ?? '') ? anonymous : null))
    }
    host.link('GraphQL of all schemas', options.path, { panel: true })
    stitchRoutes(host, schemas, options)
  },
})
