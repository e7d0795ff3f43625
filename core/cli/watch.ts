import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { type FSWatcher, readdirSync, watch as watchFolder } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { endAsked } from '../processes/signals.js'
import type { LoadedConfig } from '../host/config.js'
import { isPlain } from '../host/resolve-section.js'
import type { Invocation } from './invocation.js'

/** Files whose changes restart the server. */
const SOURCE = /\.(?:[cm]?[jt]s|json)$/
/** Maximum number of folders to watch, because the folder of a configuration may be a home directory. */
const MAX_FOLDERS = 1000
/** An editor writes a file in several steps. */
const SETTLE_MS = 100

/** Tells `rowhouse dev` that it runs below this command. */
const WATCHED = 'ROWHOUSE_WATCHED'

/**
 * Runs `rowhouse dev` in a process of its own, and again whenever a source file changes. If it fails, waits for the
 * next change.
 */
export async function watch({ flags: { config }, env, cwd, tell }: Invocation): Promise<number> {
  const args = process.argv.slice(2).filter((arg) => arg !== '--watch')
  const file = typeof config === 'string' ? config : env['ROWHOUSE_CONFIG'] || 'rowhouse.config.js'
  const sources = new Sources([dirname(resolve(cwd, file))])
  let child: ChildProcess | undefined
  let asked = false
  const end = (): void => {
    asked = true
    // A second signal ends the server immediately.
    child?.kill('SIGTERM')
  }
  const stopped = endAsked(end).then(end)

  for (;;) {
    const changed = sources.nextChange()
    // In a group of its own, because the terminal would send Ctrl-C to both processes.
    const started = fork(process.argv[1] ?? '', args, { detached: true, cwd, env: { ...env, [WATCHED]: '1' } })
    child = started
    started.on('message', (folders: readonly string[]) => sources.add(folders))
    const exited = once(started, 'exit').then(([code]) => (child = undefined, (code as number | null) ?? 1)) // prettier-ignore
    const ended = await Promise.race([exited, changed.then(() => undefined), stopped.then(() => undefined)])
    if (asked) return exited
    if (ended !== undefined) {
      tell('rowhouse dev ended; waiting for a change')
      await Promise.race([changed, stopped])
      if (asked) return ended
    }
    tell(`${basename(await changed)} changed; restarting`)
    started.kill('SIGTERM')
    await exited
    if (asked) return exited
  }
}

/** Called by `rowhouse dev`: names the folders of its sources, and ends with the process that watches them. */
export function reportSources(
  { env }: Invocation,
  { directory, parts }: Pick<LoadedConfig, 'directory' | 'parts'>,
): void {
  if (env[WATCHED] === undefined || !process.send) return
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'))
  const kinds = isPlain(parts.providers) ? Object.values(parts.providers) : []
  const entries = [parts.plugins, ...kinds].flatMap((each) => (isPlain(each) ? Object.values(each) : []))
  const uses = entries.flatMap((entry) => (isPlain(entry) && typeof entry['use'] === 'string' ? [entry['use']] : []))
  const folders = uses.filter((use) => /^[./]/.test(use)).map((use) => dirname(resolve(directory, use)))
  process.send([directory, ...folders])
}

/** Folders of source files, with the folders in them. */
class Sources {
  private readonly watchers = new Map<string, FSWatcher>()
  private heard: (path: string) => void = () => {}

  constructor(folders: readonly string[]) {
    this.add(folders)
  }

  /** Adds folders, without those of packages and hidden ones such as `.git` and the data directory. */
  add(folders: readonly string[]): void {
    for (const folder of folders) {
      if (this.watchers.has(folder) || this.watchers.size >= MAX_FOLDERS) continue
      try {
        const watcher = watchFolder(folder, (_event, name) => this.hear(folder, name))
        watcher.on('error', () => this.forget(folder))
        this.watchers.set(folder, watcher)
      } catch {
        continue // It is gone, or not readable.
      }
      this.add(foldersIn(folder))
    }
  }

  /** Resolves with the path of the next file that changes, once its changes are complete. */
  async nextChange(): Promise<string> {
    const path = await new Promise<string>((resolved) => (this.heard = resolved))
    await sleep(SETTLE_MS)
    return path
  }

  private hear(folder: string, name: string | null): void {
    if (name !== null && SOURCE.test(name)) this.heard(join(folder, name))
    else this.add(foldersIn(folder))
  }

  private forget(folder: string): void {
    this.watchers.get(folder)?.close()
    this.watchers.delete(folder)
  }
}

function foldersIn(folder: string): readonly string[] {
  try {
    const all = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory())
    return all.filter(({ name }) => !/^\.|^node_modules$/.test(name)).map(({ name }) => join(folder, name))
  } catch {
    return []
  }
}
