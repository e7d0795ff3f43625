import type { Bench } from '../../bench.js'
import { measured } from '../../load-rounds.js'
import { runLoad } from '../../load/load.js'
import type { Measured } from '../../section.js'
import type { Child, Post } from '../../systems/child.js'

/** One window of requests that differ in their bodies only. */
export function measureReads(bench: Bench, child: Child, posts: readonly Post[], clients: number): Promise<Measured> {
  const [{ path, headers }] = posts as [Post]
  const bodies = posts.map(({ body }) => body)
  return measured(bench, child, (window) => runLoad({ port: child.port, path, headers, bodies, clients, window }))()
}
