import { definePlugin } from 'rowhouse'
import { consolePage } from './page.js'
import { config, migrations } from './schema.js'
import { sessionRoutes } from './routes.js'
import { Sessions } from './sessions.js'

/** A page that shows and changes what the other plugins serve. It uses their public endpoints. */
export default definePlugin({
  name: 'console',
  needs: ['data', 'operations'],
  config,
  migrations,
  setup(host, { sessionHours }) {
    const sessions = new Sessions(host.use('data'), sessionHours * HOUR_MS)
    host.authenticator((credentials) => sessions.find(credentials))
    sessionRoutes(host.router, sessions)
    consolePage(host.router)
    host.link('Console', '/console')
  },
})

const HOUR_MS = 3_600_000
