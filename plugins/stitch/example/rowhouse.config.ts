/** A server of its own that makes one API of a Rowhouse and a weather service. */
const secret = { $env: 'ROWHOUSE_ADMIN_SECRET' }

export default {
  http: { port: 8090 },
  plugins: {
    // Only stitch: no database is needed.
    query: false,
    template: false,
    graphql: false,
    filestore: false,
    stitch: {
      schemas: {
        shop: {
          url: 'http://127.0.0.1:8080/v1/graphql',
          // The whole schema is the admin's; what a caller may see of it is decided by who the caller is.
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
