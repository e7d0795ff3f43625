import cluster from 'node:cluster'
import { chmodSync } from 'node:fs'
import { lstat, unlink } from 'node:fs/promises'
import { connect, type Server } from 'node:net'

export interface SocketFile {
  readonly path: string
  /** File permissions in octal digits. */
  readonly mode: string
}

/**
 * Listens on a unix socket. Replaces a stale file of a killed server, but neither a socket in use nor a file that is
 * not a socket.
 * @param setting name of the setting for the path
 * @throws Error that names the setting
 */
export async function listenOnSocket(server: Server, { path, mode }: SocketFile, setting: string): Promise<void> {
  try {
    await listen(server, path, mode).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EADDRINUSE') throw error
      await removeStale(path)
      await listen(server, path, mode)
    })
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    // libuv reports EACCES for a missing folder, too.
    const why = code === 'EACCES' ? 'its folder is missing or not writable' : message
    throw new Error(`${setting}: cannot listen on ${path}: ${why}`, { cause: error })
  }
}

function listen(server: Server, path: string, mode: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    // `listen` creates the file before it returns. The umask ensures that it never has more permissions.
    const before = process.umask(0o777 & ~Number.parseInt(mode, 8))
    try {
      server.listen({ path }, () => {
        server.off('error', reject)
        // Under a supervisor, that process has created the file, for its owner only.
        if (cluster.isWorker) chmodSync(path, Number.parseInt(mode, 8))
        resolve()
      })
    } finally {
      process.umask(before)
    }
  })
}

async function removeStale(path: string): Promise<void> {
  if (!(await lstat(path)).isSocket()) throw new Error('the file exists and is not a socket')
  if (await answers(path)) throw new Error('another server is listening on it')
  await unlink(path)
}

/** Returns whether a server listens, even one that is too busy or denies permission. */
function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path })
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code !== 'ECONNREFUSED'))
  })
}
