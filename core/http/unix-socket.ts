import { lstat, unlink } from 'node:fs/promises'
import { connect } from 'node:net'
import type { Server } from 'node:net'

export interface SocketFile {
  readonly path: string
  /** Octal digits: who may connect. */
  readonly mode: string
}

/**
 * Listens on a unix socket. A file that a killed server left behind is replaced; one on which somebody answers, and one
 * that is no socket, are left alone.
 * @param setting where the path is configured
 * @throws Error that names it
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
    // libuv says so of a folder that is missing, too.
    const why = code === 'EACCES' ? 'its folder is missing or cannot be written' : message
    throw new Error(`${setting}: cannot listen on ${path}: ${why}`, { cause: error })
  }
}

function listen(server: Server, path: string, mode: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    // The file is made before `listen` returns. With the mask it never has more permissions than it should.
    const before = process.umask(0o777 & ~Number.parseInt(mode, 8))
    try {
      server.listen({ path }, () => {
        server.off('error', reject)
        resolve()
      })
    } finally {
      process.umask(before)
    }
  })
}

async function removeStale(path: string): Promise<void> {
  if (!(await lstat(path)).isSocket()) throw new Error('there is a file that is no socket')
  if (await answers(path)) throw new Error('another server listens there')
  await unlink(path)
}

/** Whether somebody listens: also when it is too busy to take the connection, or does not let us in. */
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
