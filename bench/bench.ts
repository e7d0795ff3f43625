import type { Size } from './data.js'
import type { BenchDatabase } from './database.js'
import type { Window } from './load/load.js'
import type { Peers } from './peers.js'
import type { PeersByUrl } from './peers-by-url.js'
import type { Servers } from './servers.js'

/** One build of ours under measurement. */
export interface Build {
  /** Behind the names of its systems; empty for the first. */
  readonly suffix: string
  /** Where its compiled files are, when that is not here. */
  readonly folder?: string
  /** Of a database of its own, when it is another build, because migrations may differ. */
  readonly url: string
}

/** What every scenario works with. */
export interface Bench {
  readonly database: BenchDatabase
  /** Of the database that holds the data. */
  readonly url: string
  readonly size: Size
  readonly rounds: number
  readonly window: Window
  /** Runs before a window and is not counted; never where a window is a number of requests. */
  readonly leadIn: Window
  /** More limits and ways to ask than a quick run has time for. */
  readonly full: boolean
  /** This one first. With `--full` it is there a second time, to see how much two equal ones differ. */
  readonly builds: readonly Build[]
  /** Two builds of ours are compared, and nothing else is measured. */
  readonly comparing: boolean
  readonly peers: Peers
  /** Asked in the reads that all can do. */
  readonly peersByUrl: PeersByUrl
  /** Started for the first scenario that wants them, and shared by all that follow. */
  servers(): Promise<Servers>
  /** For files of load tools; deleted in the end. */
  readonly folder: string
  progress(text: string): void
}
