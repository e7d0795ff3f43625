import { type Data, definePlugin } from '../../core/index.js'

let lent: Data | undefined

/** A plugin that lends the service `data` of the server that started last: to see what it holds, and to call it. */
export default definePlugin({
  name: 'lent-data',
  needs: ['data'],
  setup(host) {
    lent = host.use('data')
  },
})

export const LENT_DATA = { 'lent-data': new URL(import.meta.url) }
export const lentData = (): Data => lent as Data
