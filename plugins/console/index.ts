import { definePlugin } from 'rowhouse'
import { consolePage } from './page.js'
import { config, migrations } from './schema.js'
import { sessionRoutes } from './routes.js'
import { Sessions } from './sessions.js'

/** The service for other plugins. */
export interface Console {
  /** Returns the path of a panel. */
  pathOf(panel: string): string
}
declare module 'rowhouse' {
  interface Services {
    console: Console
  }
}

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
    return { pathOf: (panel) => `/console/${panel}` }
  },
})

const HOUR_MS = 3_600_000
