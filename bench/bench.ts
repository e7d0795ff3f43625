import type { Size } from './data.js'
import type { BenchDatabase } from './database.js'
import type { Window } from './load/load.js'
import type { Peers } from './peers.js'
import type { PeersByUrl } from './peers-by-url.js'
import type { Servers } from './servers.js'

/** One build of ours, with a database of its own, because migrations may differ. */
export interface Build {
  readonly url: string
  /** Where its compiled files are, when that is not here. */
  readonly folder?: string
}

/** What every scenario works with. */
export interface Bench {
  readonly database: BenchDatabase
  /** Of the database that holds the data. */
  readonly url: string
  readonly size: Size
  readonly rounds: number
  readonly window: Window
  /** Runs before a window and is not counted. */
  readonly leadIn?: Window | undefined
  /** More limits and ways to ask than a quick run has time for. */
  readonly full: boolean
  readonly peers: Peers
  /** Asked in the reads that all can do. */
  readonly peersByUrl: PeersByUrl
  /** Started for the first scenario that wants them, and shared by all that follow. */
  servers(): Promise<Servers>
  /** For files of load tools; deleted in the end. */
  readonly folder: string
  progress(text: string): void
}
