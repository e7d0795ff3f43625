import { definePlugin } from 'rowhouse'
import { startCollector } from './collector.js'
import { config } from './config.js'
import { errorBody } from './errors.js'
import { Files } from './files.js'
import { fileRoutes } from './routes.js'
import { migrations } from './schema.js'
import { Uploads } from './uploads.js'

/** Files by an id of the client's: upload, replace, download, delete. */
export default definePlugin({
  name: 'filestore',
  config,
  migrations,
  setup(host, options) {
    const files = new Files(host.use('data'))
    host.formatError(errorBody)
    fileRoutes(host, files, new Uploads(host, files, options), options)
    const collector = startCollector(host, files, options.collect)
    host.onClose(() => collector.stop())
  },
})
