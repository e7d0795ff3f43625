import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { ERRORS, ServiceError, serviceError } from '../../core/errors.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))

t.test(
  'the table of error codes in core/README.md is the catalogue, without codes that the page of a plugin has',
  async (t) => {
    const rows = Object.entries(ERRORS)
      .filter(([, [, meaning]]) => !/^(Notify|Filestore|Resumable uploads):/.test(meaning))
      .map(([code, [status, meaning]]) => ({ status: [status].flat(), code, meaning }))
      .sort((a, b) => a.status[0]! - b.status[0]!)
      .map(({ status, code, meaning }) => `| ${status.join(', ')} | \`${code}\` | ${meaning} |`)

    const readme = await readFile(join(root, 'core/README.md'), 'utf8')

    const table = readme.slice(readme.indexOf('| status | code | when |')).split('\n\n')[0] as string
    t.same(table.trim().split('\n').slice(2), rows)
  },
)

/** Statuses of 500 and above, but for requests in another version or coding of HTTP. */
const isFailure = (status: number): boolean => status >= 500 && status !== 501 && status !== 505

t.test('the alerts and the dashboard count all codes of the catalogue that are no fault of a client', async (t) => {
  const codes = Object.entries(ERRORS).flatMap(([code, [status]]) => (isFailure([status].flat()[0]!) ? [code] : []))
  for (const [name, times] of [
    ['alerts.yaml', 2],
    ['dashboard.json', 1],
  ] as const) {
    const text = await readFile(join(root, 'core/deploy/monitoring', name), 'utf8')
    const found = [...text.matchAll(/rowhouse_errors_total\{[^}]*code=~\\?"([^"\\]*)/g)].map(([, each]) =>
      each!.split('|'),
    )
    t.equal(found.length, times, name)
    for (const each of found) t.same(each, [...codes, 'remote-.*'].sort(), name)
  }
})

t.test('an error of the catalogue has its usual status, or another one of its code', async (t) => {
  t.match(serviceError('access-denied', 'no'), { status: 400, code: 'access-denied', path: '$' })
  t.match(serviceError('access-denied', 'no', '$.args', { status: 403 }), { status: 403, path: '$.args' })
  t.match(serviceError('unavailable', 'down', '$', { retryAfter: 2 }), { status: 503, retryAfter: 2 })
})

t.test('an error under a path keeps what it says', async (t) => {
  const error = serviceError('unavailable', 'down', '$.args', { retryAfter: 2, internal: { hint: 'x' } })

  t.match(error.under('$.args[1]'), {
    path: '$.args[1].args',
    status: 503,
    retryAfter: 2,
    internal: { hint: 'x' },
    cause: error,
  })
})

t.test('a message and a path are cut after 2,000 characters', async (t) => {
  const error = new ServiceError(400, 'too-shy', 'm'.repeat(3000), 'p'.repeat(3000))

  t.equal(error.message, `${'m'.repeat(2000)}...`)
  t.equal(error.path, `${'p'.repeat(2000)}...`)
})

t.test('every error of Rowhouse comes from the catalogue', async (t) => {
  for (const folder of ['core', 'plugins', 'providers']) {
    for (const name of await readdir(join(root, folder), { recursive: true })) {
      if (!name.endsWith('.ts') || `${folder}/${name}` === 'core/errors.ts') continue
      const source = await readFile(join(root, folder, name), 'utf8')

      t.notMatch(source, /new ServiceError\(\s*\d/, `${folder}/${name}`)
    }
  }
})
