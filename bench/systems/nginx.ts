import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../../test/kit/free-port.js'
import { findProgram, runProgram } from '../program.js'
import type { Child } from './child.js'

const START_MS = 10_000
const POLL_MS = 10

/** @returns where it is; undefined where it is not and cannot be installed */
export async function findNginx(install: boolean, progress: (text: string) => void): Promise<string | undefined> {
  const found = () => [findProgram('nginx'), '/usr/sbin/nginx'].find((path) => path !== undefined && existsSync(path))
  const mayInstall = install && process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')
  if (found() !== undefined || !mayInstall) return found()
  progress('installing nginx-light')
  const env = { DEBIAN_FRONTEND: 'noninteractive' }
  try {
    await runProgram('apt-get', ['update', '--quiet'], env)
    await runProgram('apt-get', ['install', '--yes', '--quiet', '--no-install-recommends', 'nginx-light'], env)
  } catch {
    return undefined
  }
  return found()
}

/**
 * Starts nginx on the files of a folder: GET sends them with sendfile, PUT writes beside them and renames. One process, as
 * ours is one, and a request log that goes nowhere, as ours does.
 * @param folder it makes `files` in it, where the files are
 */
export async function startNginx(program: string, folder: string): Promise<Child> {
  const port = await freePort()
  await Promise.all(['files', 'temporary'].map((name) => mkdir(join(folder, name), { recursive: true })))
  const file = join(folder, 'nginx.conf')
  await writeFile(file, configuration(folder, port))
  const start = performance.now()
  const child = spawn(program, ['-p', folder, '-c', file, '-e', '/dev/null'], { stdio: 'ignore' })
  // It would outlive this process.
  const end = () => child.kill('SIGKILL')
  process.once('exit', end)
  const running = () => child.exitCode === null && child.signalCode === null
  const stop = async () => {
    process.off('exit', end)
    if (!running()) return
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    await ended
  }
  const answers = () =>
    fetch(`http://127.0.0.1:${port}/`).then(
      () => true,
      () => false,
    )
  while (!(await answers())) {
    if (running() && performance.now() - start < START_MS) await sleep(POLL_MS)
    else {
      await stop()
      throw new Error('nginx does not answer')
    }
  }
  return { pid: child.pid ?? 0, port, startMs: performance.now() - start, stop }
}

const configuration = (folder: string, port: number): string => `
daemon off;
master_process off;
pid ${folder}/nginx.pid;
events { worker_connections 512; }
http {
  access_log /dev/null;
  default_type application/octet-stream;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000000;
  client_max_body_size 0;
  client_body_temp_path ${folder}/temporary;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  server {
    listen 127.0.0.1:${port};
    root ${folder}/files;
    location / { dav_methods PUT; create_full_put_path off; }
  }
}
`
