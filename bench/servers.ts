import type { Peers } from './peers.js'
import { type Child, startChild } from './systems/child.js'
import { answersQueries, type RunningPeer, startPeer } from './systems/peer.js'
import { queryPost, startServerChild, type BenchServer } from './systems/server.js'

/** Servers on the bench's database that scenarios share, so that they are warm. */
export interface Servers {
  readonly server: BenchServer
  readonly koa: Child
  readonly peers: readonly RunningPeer[]
  stop(): Promise<void>
}

export async function startServers(url: string, wanted: Peers): Promise<Servers> {
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
    const peers = await startPeers(wanted, url)
    return {
      server,
      koa,
      peers,
      async stop() {
        await stop()
        await Promise.all(peers.map((peer) => peer.stop()))
      },
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Peers on a database; those that do not start are stopped again with the rest. */
export async function startPeers({ peers: wanted }: Peers, url: string): Promise<readonly RunningPeer[]> {
  const peers: RunningPeer[] = []
  try {
    for (const peer of wanted) if (answersQueries(peer)) peers.push(await startPeer(peer, url))
    return peers
  } catch (error) {
    await Promise.all(peers.map((peer) => peer.stop()))
    throw error
  }
}
