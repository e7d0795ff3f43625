import type {} from 'rowhouse/plugins/events'
import { definePlugin } from 'rowhouse'

/**
 * Keeps the events that it is told in the table `caught`, which tests make: in any process. It fails for those about rows
 * whose text is in the table `failing`.
 */
export default definePlugin({
  name: 'catcher',
  needs: ['data', 'events'],
  setup(host) {
    const data = host.use('data')
    host.use('events').on('catch', async (event) => {
      const { text } = (event.new ?? event.old ?? {}) as { readonly text?: string }
      const failing = await data.query('select 1 from public.failing where text = $1', [text])
      if (failing.length > 0) throw new Error(`the test does not want "${text}"`)
      await data.query('insert into public.caught (event) values ($1)', [JSON.stringify(event)])
    })
  },
})
