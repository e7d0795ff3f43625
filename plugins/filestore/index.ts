import { definePlugin, type Host } from 'rowhouse'
import { Access } from './access.js'
import { attachFile } from './attach.js'
import { createBlobCache } from './blob-cache.js'
import { Changes } from './changes.js'
import { startCollector } from './collector.js'
import { config } from './config.js'
import { errorBody } from './errors.js'
import { Files } from './files.js'
import { createHook } from './hook.js'
import { fsck } from './checking/fsck.js'
import { checkFiles } from './checking/operation.js'
import { PendingFiles } from './pending.js'
import { fileRoutes } from './routes.js'
import { PLANNER, Rules } from './rules.js'
import { assertOwners, migrations, textUsersMigration } from './schema.js'
import { StoreHealth } from './store-health.js'
import { startScrub } from './checking/scrub.js'
import { filestoreService } from './service.js'
import { SignedUrls } from './signed-urls.js'
import { resumableUploads } from './tus/index.js'
import { Uploads } from './uploads.js'
import { fileUsage } from './usage.js'

export type { FileContent, Filestore } from './service.js'

/** Files under ids that clients choose: upload, replace, download, delete. */
export default definePlugin({
  name: 'filestore',
  config,
  migrations: ({ userId }) => (userId === 'text' ? [...migrations, textUsersMigration] : migrations),
  commands: [fsck],
  async setup(host, options) {
    const data = host.use('data')
    await assertOwners(data, options.userId)
    const files = new Files(data, options.userId)
    const pending = new PendingFiles(data, options)
    const changes = new Changes(data, files, pending)
    const rules = new Rules(data)
    const hook = options.hook && createHook(options.hook)
    host.planner(PLANNER, new URL('./plan.js', import.meta.url))
    host.formatError(errorBody)
    const health = new StoreHealth()
    const uploads = new Uploads(host, files, changes, options, health)
    const access = new Access(options, rules, hook)
    const urls = new SignedUrls(data)
    const cache = createBlobCache(options.cacheBytes)
    const components = { host, config: options, files, changes, uploads, pending, rules, access, urls, cache, health }
    fileRoutes(components)
    resumableUploads(components)
    host.operation('attach_file', attachFile(data, components))
    host.operation('file_usage', fileUsage(data, components))
    const checks = checkFiles(host, options)
    host.operation('check_files', checks.operation)
    host.onClose(() => checks.stop())
    startCollector(host, files, options.collect)
    host.onClose(() => hook?.close())
    // The server stays ready: stored files, and what needs no files, still work.
    host.health('store', async () => {
      const problem = (await host.providerProblem('storage')) ?? health.problem
      return problem && `degraded: ${problem}`
    })
    // The start does not wait for a file system that hangs.
    host.onReady(() => {
      if (host.background) void warnOfProblem(host)
    })
    startScrub(host, options.scrub)
    return filestoreService(components)
  },
})

async function warnOfProblem(host: Host): Promise<void> {
  const problem = await host.providerProblem('storage')
  if (problem !== undefined) host.use('log').warn(`${problem}; uploads fail with 503`)
}
