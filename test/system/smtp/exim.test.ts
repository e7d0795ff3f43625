import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import tap, { type Test } from 'tap'
import { freePort } from '../../kit/free-port.js'
import { certificate, mail, parse, sender, soon, USER } from '../../kit/smtp.js'
import { until } from '../../kit/until.js'

const EXIM = '/usr/sbin/exim4'

interface Server {
  /** Wants STARTTLS and `USER`. */
  readonly port: number
  /** TLS from the first byte, and `USER`. */
  readonly securePort: number
  /** What was delivered, as it is on disk. */
  delivered(): Promise<readonly Buffer[]>
}

/** Exim on loopback, which delivers everything for example.org to one folder, and takes nothing else. */
async function exim(t: Test): Promise<Server> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-exim-'))
  const [port, securePort] = [await freePort(), await freePort()]
  const maildir = join(folder, 'mail')
  await chmod(folder, 0o755)
  // It works as a user of its own.
  for (const name of ['mail', 'spool', 'log']) {
    await mkdir(join(folder, name))
    await chmod(join(folder, name), 0o777)
  }
  await writeFile(join(folder, 'cert.pem'), certificate.cert)
  await writeFile(join(folder, 'key.pem'), certificate.key)
  await writeFile(
    join(folder, 'exim.conf'),
    `primary_hostname = localhost
spool_directory = ${folder}/spool
log_file_path = ${folder}/log/%slog
pid_file_path = ${folder}/pid
deliver_drop_privilege = true
local_interfaces = 127.0.0.1
daemon_smtp_ports = ${port} : ${securePort}
tls_on_connect_ports = ${securePort}
tls_advertise_hosts = *
tls_certificate = ${folder}/cert.pem
tls_privatekey = ${folder}/key.pem
auth_advertise_hosts = \${if def:tls_in_cipher {*}{}}
acl_smtp_rcpt = rcpt
acl_smtp_data = accept

begin acl
rcpt:
  accept authenticated = *
         domains = example.org
  deny message = no relaying

begin routers
everybody:
  driver = accept
  transport = keep

begin transports
keep:
  driver = appendfile
  directory = ${maildir}
  maildir_format
  create_directory
  user = Debian-exim

begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = \${if and{{eq{$auth2}{${USER.username}}}{eq{$auth3}{${USER.password}}}}}
  server_set_id = $auth2
`,
  )
  const child = spawn(EXIM, ['-bdf', '-C', join(folder, 'exim.conf')], { stdio: ['ignore', 'ignore', 'pipe'] })
  const said: string[] = []
  child.stderr.on('data', (text: Buffer) => said.push(text.toString()))
  const log = () => readFile(join(folder, 'log', 'mainlog'), 'utf8').catch(() => '')
  t.teardown(async () => {
    if (!t.passing()) t.comment(said.join(''), await log())
    if (child.exitCode === null) {
      child.kill('SIGTERM')
      await once(child, 'exit')
    }
    await rm(folder, { recursive: true })
  })
  await until('Exim listens', async () => {
    if (child.exitCode !== null) throw new Error(said.join(''))
    return (await log()).includes('daemon started')
  })
  return {
    port,
    securePort,
    async delivered() {
      const names = await readdir(join(maildir, 'new')).catch(() => [])
      return Promise.all(names.map((name) => readFile(join(maildir, 'new', name))))
    },
  }
}

tap.test('Exim takes and delivers what the smtp provider sends', async (t) => {
  const server = await exim(t)
  const sent = mail({
    to: { address: 'reader@example.org', name: 'Ünï, "the" first' },
    bcc: [{ address: 'hidden@example.org' }],
    subject: 'Grüße, 世界 👋',
    text: `.\n..\n${'long '.repeat(1_000)}`,
    html: `<p>${'x'.repeat(3_000)}`,
    attachments: [
      {
        filename: 'Grüße.bin',
        contentType: 'image/png',
        content: Buffer.from(Array.from({ length: 50_000 }, (_, i) => i % 256)),
      },
    ],
  })

  for (const [port, security] of [
    [server.port, 'starttls'],
    [server.securePort, 'tls'],
  ] as const) {
    const before = (await server.delivered()).length
    const provider = await sender(t, { port, security, ...USER })
    const receipt = await provider.send({ ...sent, id: crypto.randomUUID() }, soon())

    t.match(receipt.detail, /^250 OK id=/, security)
    await until('it is delivered to both', async () => (await server.delivered()).length === before + 2)
    const mails = (await server.delivered()).filter((bytes) => bytes.includes(`<${receipt.id}>`))
    t.equal(mails.length, 2)
    for (const bytes of mails) {
      const read = await parse(bytes)
      t.match(read, { to: [sent.to], subject: sent.subject, from: sent.from })
      t.equal(read.text?.trimEnd(), sent.text?.trimEnd())
      t.equal(read.html?.trimEnd(), sent.html)
      t.ok(
        Buffer.from(read.attachments[0]?.content as ArrayBuffer).equals(
          sent.attachments?.[0]?.content ?? Buffer.alloc(0),
        ),
      )
      t.notMatch(bytes.toString('latin1').split('\n\n')[0], /^(To|Cc|Bcc):.*hidden/im)
      t.match(bytes.toString('latin1'), /with esmtpsa/, 'through TLS, as a user')
    }
  }

  const provider = await sender(t, { port: server.port, security: 'starttls', ...USER })
  const elsewhere = { address: 'reader@example.net' }
  t.match(
    await errorOf(provider.send(mail({ to: elsewhere }), soon())),
    { name: 'SendError', outcome: 'refused', response: '550 no relaying' },
    'it takes no mail for elsewhere',
  )
  t.match(await provider.send(mail({ cc: [elsewhere] }), soon()), {
    detail: /^250 OK/,
    recipients: [{ address: 'reader@example.net', outcome: 'refused' }],
  })
  const stranger = await sender(t, { port: server.port, security: 'starttls', ...USER, password: 'wrong' })
  t.match(await errorOf(stranger.send(mail(), soon())), { name: 'SendError', outcome: 'retry', response: /^535/ })
})

const errorOf = (sending: Promise<unknown>): Promise<unknown> =>
  sending.then(
    () => undefined,
    (error: unknown) => error,
  )
