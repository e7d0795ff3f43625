import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runProgram } from './program.js'
import type { Commit } from './result.js'

/** The source tree that this is the bench of. */
const ROOT = fileURLToPath(new URL('../../', import.meta.url))

const git = async (...args: readonly string[]): Promise<string> =>
  (await runProgram('git', ['-C', ROOT, ...args])).trim()

/** What is measured. */
export async function commitOf(ref = 'HEAD'): Promise<Commit> {
  try {
    const sha = await git('rev-parse', '--short=10', '--verify', '--end-of-options', `${ref}^{commit}`)
    return { sha, changed: ref === 'HEAD' && (await git('status', '--porcelain', '--untracked-files=no')) !== '' }
  } catch {
    return { sha: 'unknown', changed: false }
  }
}

/** Another commit, built in a folder of its own. */
export interface Checkout {
  /** Its compiled files. */
  readonly build: string
  /** Takes it away, whatever has become of it. */
  remove(): Promise<void>
}

/** Where it will be, so that it can be taken away while it is made. */
export async function prepareCheckout(): Promise<Checkout & { make(sha: string, progress: Progress): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-bench-build-'))
  const tree = join(folder, 'tree')
  return {
    build: join(tree, 'build'),
    async make(sha, progress) {
      await git('worktree', 'add', '--quiet', '--detach', tree, sha)
      await install(tree, progress)
      progress(`building ${sha}`)
      await runProgram('npm', ['--prefix', tree, 'run', '--silent', 'build'])
    },
    async remove() {
      await rm(folder, { recursive: true, force: true, maxRetries: 5 })
      await git('worktree', 'prune')
    },
  }
}

type Progress = (text: string) => void

/** The packages of this tree where they are the same. */
async function install(tree: string, progress: Progress): Promise<void> {
  const lock = (root: string) => readFile(join(root, 'package-lock.json'), 'utf8')
  if ((await lock(tree)) === (await lock(ROOT))) return symlink(join(ROOT, 'node_modules'), join(tree, 'node_modules'))
  progress('installing its packages, which are others')
  await runProgram('npm', ['ci', '--prefix', tree, '--ignore-scripts', '--no-audit', '--no-fund'])
}
