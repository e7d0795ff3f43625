import { definePlugin, staticPage } from 'rowhouse'

const SCRIPT = `import { query, role } from '/console/assets/panel.js'
const rows = await query('select', { table: 'guestbook', columns: ['entry'] })
document.querySelector('main').append(role.value + ': ' + rows.map(({ entry }) => entry).join())
try { top.location.href = '/healthz' } catch { document.title = 'kept' }`

/** A plugin of a third party with a panel in the console. */
export default definePlugin({
  name: 'guestbook',
  needs: ['data'],
  setup(host) {
    const page = staticPage(host.router, {
      html: '<!doctype html><html lang="en"><title>Guestbook</title><main></main><script type="module" src="/v1/guestbook/assets/page.js"></script></html>',
      assets: '/v1/guestbook/assets',
      files: { 'page.js': SCRIPT },
    })
    host.router.get('/v1/guestbook', page)
    host.link('Guestbook', '/v1/guestbook', { panel: true })
    host.link('Elsewhere', 'https://example.com/', { panel: true })
  },
})
