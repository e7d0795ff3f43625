import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** A request that is answered once there is a file, and a command that waits for Ctrl-C. */
export const SLOW = `host.router.get('/slow', async (ctx) => {
    host.use('log').warn('asked')
    while (!existsSync(new URL('go-on', import.meta.url))) await new Promise((resolve) => setTimeout(resolve, 10))
    ctx.body = 'done'
  })`

/** Loads one plugin alone, which needs no database. */
export async function configure(folder: string, setup: string): Promise<void> {
  const off = {
    query: false,
    graphql: false,
    filestore: false,
    notify: false,
    events: false,
    history: false,
    live: false,
  }
  const plugins = { ...off, slow: { use: './slow.mjs' } }
  await writeFile(join(folder, 'rowhouse.config.json'), JSON.stringify({ plugins }))
  await writeFile(
    join(folder, 'slow.mjs'),
    `import { existsSync } from 'node:fs'
import { once } from 'node:events'
export default {
  name: 'slow',
  database: false,
  setup(host) { ${setup} },
  commands: [{ name: 'wait', summary: 'waits', usage: 'rowhouse wait', help: 'Waits.', async run({ signal, print }) {
    const timer = setInterval(() => {}, 1000)
    print('waiting')
    await once(signal, 'abort')
    clearInterval(timer)
    print('cleaned up: ' + signal.reason.message)
    return 5
  } }],
}`,
  )
}
