import { serverAudits } from 'graphql-http'
import tap from 'tap'
import { ADMIN_SECRET, testServer } from '../kit/server.js'

tap.test('GraphQL over HTTP, by the public audit', async (t) => {
  const server = await testServer(t)
  const audits = serverAudits({
    url: `${server.url}/v1/graphql`,
    fetchFn: (url: string, init: RequestInit = {}) =>
      fetch(url, {
        ...init,
        headers: { ...(init.headers as Record<string, string>), 'x-service-admin-secret': ADMIN_SECRET },
      }),
  })
  t.ok(audits.length > 50)
  for (const audit of audits) {
    const result = await audit.fn()
    if (audit.name.startsWith('MUST'))
      t.equal(result.status, 'ok', `${audit.name}${'reason' in result ? `: ${result.reason}` : ''}`)
    else if (result.status !== 'ok') t.comment(`${audit.name}: ${'reason' in result ? result.reason : ''}`)
  }
})
