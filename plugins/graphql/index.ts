import { definePlugin } from 'rowhouse'
import { config } from './config.js'
import { graphqlRoutes } from './http.js'
import { PLANNER } from './prepared.js'

/** Serves GraphQL in two dialects, `/v1alpha1/graphql` and `/v1/graphql`, and the latter for Relay. */
export default definePlugin({
  name: 'graphql',
  wants: ['live'],
  config,
  setup(host, options) {
    host.planner(PLANNER, new URL('./plan/index.js', import.meta.url))
    host.link('GraphQL', '/v1/graphql')
    const data = host.use('data')
    const { inferFunctionPermissions, namingConvention } = options
    data.describeCatalog({ inferFunctionPermissions, naming: namingConvention })
    graphqlRoutes(host, data, options)
  },
})
