import type { Size } from './data.js'
import type { BenchDatabase } from './database.js'
import type { LoadTool, Window } from './load/load.js'
import type { Peers } from './peers.js'
import type { Servers } from './servers.js'

/** What every scenario works with. */
export interface Bench {
  readonly database: BenchDatabase
  /** Of the database that holds the data. */
  readonly url: string
  readonly size: Size
  readonly rounds: number
  readonly window: Window
  readonly tool: LoadTool
  readonly peers: Peers
  /** Started for the first scenario that wants them, and shared by all that follow. */
  servers(): Promise<Servers>
  /** For files of load tools; deleted in the end. */
  readonly folder: string
  progress(text: string): void
}
