import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

/** A server as `npm start` starts it, with the sample shop. */
export interface Sample {
  /** Link that signs in once. */
  readonly link: string
  /** Ends PostgreSQL, which the server then starts again. */
  endDatabase(): Promise<void>
  stop(): Promise<void>
}

export async function startSample(): Promise<Sample> {
  const cwd = await mkdtemp(join(tmpdir(), 'rowhouse-sample-'))
  // As root, PostgreSQL runs as another user, who must get into the folder.
  await chmod(cwd, 0o755)
  const cli = fileURLToPath(new URL('../../../core/cli.js', import.meta.url))
  const server = spawn(process.execPath, [cli, 'dev', '--port', '0'], { cwd, stdio: ['ignore', 'pipe', 'ignore'] })
  const stop = async () => {
    const gone = server.exitCode === null ? once(server, 'exit') : undefined
    server.kill()
    await gone
    await rm(cwd, { recursive: true, force: true })
  }
  for await (const line of createInterface(server.stdout)) {
    const link = /https?:\S+#code=\S+/.exec(line)?.[0]
    if (link === undefined) continue
    server.stdout.resume()
    const endDatabase = async () => {
      const [pid] = (await readFile(join(cwd, '.rowhouse/postgres/data/postmaster.pid'), 'utf8')).split('\n')
      process.kill(Number(pid), 'SIGINT')
    }
    return { link, endDatabase, stop }
  }
  await stop()
  throw new Error('the server printed no sign-in link')
}
