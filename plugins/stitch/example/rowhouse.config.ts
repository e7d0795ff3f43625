/** A separate server that merges a Rowhouse and a weather service into one API. */
const secret = { $env: 'ROWHOUSE_ADMIN_SECRET' }

export default {
  http: { port: 8090 },
  plugins: {
    // With stitch as the only plugin, the server needs no database.
    query: false,
    template: false,
    graphql: false,
    filestore: false,
    notify: false,
    stitch: {
      schemas: {
        shop: {
          url: 'http://127.0.0.1:8080/v1/graphql',
          // Fetched as admin, the schema is complete. Permissions apply when a caller runs a query.
          schemaHeaders: { 'x-service-admin-secret': secret },
          forwardHeaders: ['authorization', 'x-service-admin-secret', 'x-service-role', 'x-service-user-id'],
        },
        weather: { url: 'http://127.0.0.1:8091/', forwardHeaders: [] },
      },
      extensions: [
        {
          type: 'customer',
          field: 'weather',
          from: 'weather',
          query: 'weathers',
          arguments: { city_names: '$city' },
          batch: { argument: 'city_names', key: 'city' },
        },
      ],
    },
  },
}
