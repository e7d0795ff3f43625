import { spawn, type ChildProcess, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../../kit/free-port.js'

const PATIENCE_MS = 60_000
const STOP_MS = 5_000
const KINDS = ['account', 'container', 'object'] as const

export const SWIFT_PACKAGES = ['swift-proxy', 'swift-account', 'swift-container', 'swift-object', 'memcached']

/** Whether the programs are there, and whatever is below the temporary folder may have extended attributes. */
export function canRunSwift(): boolean {
  const programs = ['memcached', ...['proxy', ...KINDS].map((kind) => `swift-${kind}-server`)]
  if (process.getuid?.() !== 0 || !programs.every((program) => existsSync(`/usr/bin/${program}`))) return false
  return spawnSync('/usr/bin/python3', ['-c', ATTRIBUTES, tmpdir()], { timeout: PATIENCE_MS }).status === 0
}

const ATTRIBUTES = `
import os, sys, tempfile
with tempfile.NamedTemporaryFile(dir=sys.argv[1]) as file:
    os.setxattr(file.name, 'user.rowhouse', b'1')
`

/** Where an S3 server is, and who may use it. */
export interface S3Server {
  readonly access: { readonly endpoint: string; readonly accessKeyId: string; readonly secretAccessKey: string }
  /** From now on it answers with 5xx whatever it is asked about objects. */
  failObjects(): Promise<void>
}

/**
 * OpenStack Swift with its S3 interface, on free ports of loopback, in a new folder below the temporary ones; both are
 * gone when the test ends. Its file system needs extended attributes.
 */
export async function startSwift(t: { teardown(fn: () => Promise<void>): unknown }): Promise<S3Server> {
  const folder = mkdtempSync(join(tmpdir(), 'rowhouse-swift-'))
  const children = new Map<string, ChildProcess>()
  t.teardown(async () => {
    await Promise.all([...children.values()].map(stop))
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  })
  const run = (command: string, ...args: readonly string[]) => {
    const log = openSync(join(folder, 'log'), 'a')
    children.set(command, spawn(command, args, { stdio: ['ignore', log, log] }))
  }
  const [account = 0, container = 0, object = 0, proxy = 0, cache = 0] = await Promise.all(
    Array.from({ length: 5 }, freePort),
  )
  const ports = { account, container, object }

  mkdirSync(join(folder, 'devices', 'd1'), { recursive: true })
  writeFileSync(join(folder, 'swift.conf'), SWIFT)
  makeRings(folder, ports)
  for (const kind of KINDS) {
    const conf = join(folder, `${kind}.conf`)
    writeFileSync(conf, storageConf(folder, kind, ports[kind]))
    run(`swift-${kind}-server`, conf)
  }
  run('memcached', '-u', 'root', '-l', '127.0.0.1', '-p', String(cache), '-U', '0', '-m', '16')
  writeFileSync(join(folder, 'proxy.conf'), proxyConf(folder, proxy, cache))
  run('swift-proxy-server', join(folder, 'proxy.conf'))

  const endpoint = `http://127.0.0.1:${proxy}`
  // The proxy shuns for a minute who was not there when it was first asked.
  const up = async () => (await Promise.all([account, container, object, cache].map(listens))).every(Boolean)
  const ready = async () => (await up()) && (await isUp(endpoint))
  for (const deadline = performance.now() + PATIENCE_MS; !(await ready()); await sleep(50)) {
    if (performance.now() > deadline || [...children.values()].some((child) => child.exitCode !== null)) {
      throw new Error(`Swift did not start:\n${readFileSync(join(folder, 'log'), 'utf8').slice(-4000)}`)
    }
  }
  return {
    access: { endpoint, accessKeyId: 'test:tester', secretAccessKey: 'testing' },
    failObjects: () => stop(children.get('swift-object-server') as ChildProcess),
  }
}

async function isUp(endpoint: string): Promise<boolean> {
  try {
    return (await fetch(`${endpoint}/healthcheck`, { signal: AbortSignal.timeout(2_000) })).ok
  } catch {
    return false
  }
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}

/** Says for each kind where its things are: on the one device there is. */
function makeRings(folder: string, ports: Readonly<Record<string, number>>): void {
  const input = JSON.stringify({ folder, ports })
  const { status, stderr } = spawnSync('/usr/bin/python3', ['-c', RINGS], {
    input,
    timeout: PATIENCE_MS,
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`the rings could not be made: ${stderr}`)
}

const RINGS = `
import json, sys
from swift.common.ring import RingBuilder
given = json.load(sys.stdin)
for kind, port in given['ports'].items():
    ring = RingBuilder(4, 1, 0)
    ring.add_dev({'region': 1, 'zone': 1, 'ip': '127.0.0.1', 'port': port, 'device': 'd1', 'weight': 1.0})
    ring.rebalance()
    ring.get_ring().save('%s/%s.ring.gz' % (given['folder'], kind))
`

const SWIFT = `[swift-hash]
swift_hash_path_prefix = rowhouse
swift_hash_path_suffix = rowhouse
[storage-policy:0]
name = one
default = yes
`

const storageConf = (folder: string, kind: string, port: number): string => `[DEFAULT]
bind_ip = 127.0.0.1
bind_port = ${port}
devices = ${join(folder, 'devices')}
swift_dir = ${folder}
user = root
mount_check = false
workers = 0
fallocate_reserve = 0
log_level = ERROR
[pipeline:main]
pipeline = ${kind}-server
[app:${kind}-server]
use = egg:swift#${kind}
`

const proxyConf = (folder: string, port: number, cache: number): string => `[DEFAULT]
bind_ip = 127.0.0.1
bind_port = ${port}
swift_dir = ${folder}
user = root
workers = 0
log_level = ERROR
[pipeline:main]
pipeline = catch_errors healthcheck proxy-logging cache bulk s3api tempauth slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
allow_account_management = true
conn_timeout = 10
node_timeout = 30
recoverable_node_timeout = 30
error_suppression_interval = 1
error_suppression_limit = 100000
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:healthcheck]
use = egg:swift#healthcheck
[filter:proxy-logging]
use = egg:swift#proxy_logging
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:${cache}
[filter:bulk]
use = egg:swift#bulk
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
`

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill()
  const patience = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
  await ended
  clearTimeout(patience)
}
