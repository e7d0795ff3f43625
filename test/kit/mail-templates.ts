import { definePlugin, ServiceError } from 'rowhouse'
import { templatesMigration } from '../../plugins/notify/templates/migration.js'
import { templateRoutes } from '../../plugins/notify/templates/routes.js'
import { MailTemplates } from '../../plugins/notify/templates/templates.js'

/** Only the mail templates of the plugin `notify`. */
export default definePlugin({
  name: 'notify',
  migrations: [templatesMigration],
  setup(host) {
    host.formatError(({ code, message }) => ({ code: code.replaceAll('-', '_'), message }))
    templateRoutes(host.router, new MailTemplates(host.use('data')), {
      adminOnly(ctx) {
        if (ctx.state.session.role !== 'admin') throw new ServiceError(401, 'unauthorized', 'admin only')
      },
    })
  },
})
