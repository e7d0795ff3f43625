import type { Bench } from '../bench.js'
import { measureLoad } from '../load-rounds.js'
import type { Section } from '../section.js'
import { measureWrite } from '../write-rounds.js'
import { byPk } from './by-pk.js'
import { measureColdStart } from './cold-start.js'
import { measureFiles } from './files.js'
import { filter } from './filter.js'
import { list } from './list.js'
import { measureMail } from './mail.js'
import { nested } from './nested.js'
import type { LoadScenario } from './scenario.js'
import { measureSchema } from './schema.js'
import { measureStream } from './stream.js'
import { insertMany, insertOne, type WriteScenario } from './write.js'

/** One workload, as it is chosen with `--only` and stands in the report. */
export interface Scenario {
  readonly id: string
  /** A word or two, for the help. */
  readonly name: string
  /** Belongs to the run without options; else it runs with `--full`, or when it is asked for by its id. */
  readonly quick?: boolean
  /** About how long it takes in the run without options, for the time left; 30 where it does not say. */
  readonly seconds?: number
  measure(bench: Bench): Promise<Section | readonly Section[]>
}

const load = (scenario: LoadScenario): Pick<Scenario, 'measure'> => ({
  measure: (bench) => measureLoad(scenario, bench),
})

const write = (scenario: WriteScenario): Pick<Scenario, 'measure'> => ({
  measure: (bench) => measureWrite(scenario, bench),
})

/** In the order in which they run. */
export const SCENARIOS: readonly Scenario[] = [
  { id: 'a', name: 'by-pk', quick: true, seconds: 31, ...load(byPk) },
  { id: 'b', name: 'list', quick: true, seconds: 31, ...load(list) },
  { id: 'c', name: 'nested', quick: true, seconds: 31, ...load(nested) },
  { id: 'd', name: 'filter', quick: true, seconds: 31, ...load(filter) },
  { id: 'e', name: 'insert 1', quick: true, seconds: 28, ...write(insertOne) },
  { id: 'f', name: 'insert 1,000', quick: true, seconds: 28, ...write(insertMany) },
  { id: 'g', name: 'stream', quick: true, seconds: 10, measure: measureStream },
  { id: 'h', name: 'files', measure: measureFiles },
  { id: 'i', name: 'cold start', quick: true, seconds: 22, measure: measureColdStart },
  { id: 'n', name: 'mail', measure: measureMail },
  { id: 'q', name: 'GraphQL schema', measure: measureSchema },
]
