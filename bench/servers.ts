import type { Peer, Peers } from './peers.js'
import { type Child, startChild } from './systems/child.js'
import { startPeer } from './systems/peer.js'
import { queryPost, startServerChild, type BenchServer } from './systems/server.js'

/** Servers on the bench's database that scenarios share, so that they are warm. */
export interface Servers {
  readonly server: BenchServer
  readonly koa: Child
  readonly peers: readonly RunningPeer[]
  stop(): Promise<void>
}

export type RunningPeer = Peer & { readonly child: Child }

export async function startServers(url: string, { peers: wanted }: Peers): Promise<Servers> {
  const children: Child[] = []
  const started = async <T extends Child>(starting: Promise<T>): Promise<T> => {
    const child = await starting
    children.push(child)
    return child
  }
  const stop = async () => void (await Promise.all(children.map((child) => child.stop())))
  try {
    const server = await started(startServerChild(url))
    const koa = await started(startChild('koa', {}, queryPost({}, {})))
    const peers: RunningPeer[] = []
    for (const peer of wanted) peers.push({ ...peer, child: await started(startPeer(peer, url)) })
    return { server, koa, peers, stop }
  } catch (error) {
    await stop()
    throw error
  }
}
