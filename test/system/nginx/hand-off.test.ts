import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import tap, { type Test } from 'tap'
import { admin, filestore } from '../../kit/files.js'
import { freePort } from '../../kit/free-port.js'
import { ADMIN_SECRET } from '../../kit/server.js'
import { until } from '../../kit/until.js'

const NGINX = '/usr/sbin/nginx'

/** nginx before a server, as the README says; its files are where the server keeps them. */
async function nginx(t: Test, server: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-nginx-'))
  const port = await freePort()
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  )
  await writeFile(
    join(folder, 'nginx.conf'),
    `daemon off; user root; pid ${folder}/pid; error_log stderr; events {}
     http { access_log off; ${temporary.join(' ')} client_max_body_size 0;
       server { listen 127.0.0.1:${port};
         location / { proxy_pass ${server}; proxy_http_version 1.1; proxy_request_buffering off; }
         location /_files/ { internal; alias /;
           add_header X-Content-Type-Options nosniff;
           add_header Content-Security-Policy "default-src 'none'; sandbox"; } } }`,
  )
  const process = spawn(NGINX, ['-c', join(folder, 'nginx.conf'), '-e', 'stderr'], { stdio: 'ignore' })
  t.teardown(async () => {
    process.kill('SIGTERM')
    await once(process, 'exit')
    await rm(folder, { recursive: true })
  })
  const url = `http://127.0.0.1:${port}`
  await until('nginx answers', () =>
    fetch(`${url}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    ),
  )
  return url
}

tap.test('nginx sends what it is handed', async (t) => {
  const server = await filestore(t, { handOff: { mode: 'x-accel-redirect', prefix: '/_files' } })
  const url = await nginx(t, server.url)
  const bytes = randomBytes(3_000_000)
  const headers = { 'X-Service-Admin-Secret': ADMIN_SECRET, ...admin.variables }
  const ask = (id: string, init: RequestInit = {}) =>
    fetch(`${url}/v1/file/${id}`, { ...init, headers: { ...headers, ...(init.headers as object) } })

  const put = await ask('large.svg', { method: 'PUT', body: bytes, headers: { 'Content-Type': 'image/svg+xml' } })
  t.equal(put.status, 200)
  const got = await ask('large.svg')
  t.equal(got.status, 200)
  t.ok(Buffer.from(await got.arrayBuffer()).equals(bytes))
  t.match(Object.fromEntries(got.headers), {
    'content-type': 'image/svg+xml',
    'content-disposition': 'attachment',
    'content-length': '3000000',
    'cache-control': 'private, no-cache',
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; sandbox",
  })
  t.equal(got.headers.get('x-accel-redirect'), null)

  const part = await ask('large.svg', { headers: { Range: 'bytes=1000000-1000099' } })
  t.equal(part.status, 206)
  t.equal(part.headers.get('content-range'), 'bytes 1000000-1000099/3000000')
  t.ok(Buffer.from(await part.arrayBuffer()).equals(bytes.subarray(1_000_000, 1_000_100)))
  t.equal((await ask('large.svg', { headers: { Range: 'bytes=3000000-' } })).status, 400, 'errors are ours')

  const own = got.headers.get('etag') as string
  t.equal(
    (await ask('large.svg', { headers: { 'If-None-Match': own } })).status,
    304,
    'by the ETag that the client was given',
  )
  const ours = `"${createHash('sha256').update(bytes).digest('hex')}"`
  t.equal((await ask('large.svg', { headers: { 'If-None-Match': ours } })).status, 304, 'and by ours')
  const head = await ask('large.svg', { method: 'HEAD' })
  t.match({ status: head.status, length: head.headers.get('content-length') }, { status: 200, length: '3000000' })
  t.equal((await fetch(`${url}/v1/file/large.svg`)).status, 403, 'nobody else')
  t.equal((await fetch(`${url}/_files/etc/passwd`)).status, 404, 'and no way in')
})
