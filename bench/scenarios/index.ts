import type { Bench } from '../bench.js'
import { measureLoad } from '../load-rounds.js'
import type { Section } from '../section.js'
import { byPk } from './by-pk.js'
import { measureColdStart } from './cold-start.js'
import { measureFiles } from './files.js'
import { filter } from './filter.js'
import { GROWTH } from './growth/index.js'
import { list } from './list.js'
import { measureMail } from './mail.js'
import { nested } from './nested.js'
import type { LoadScenario } from './scenario.js'
import { measureSchema } from './schema.js'
import { measureStream } from './stream.js'

/** One workload, as it is chosen with `--only` and stands in the report. */
export interface Scenario {
  readonly id: string
  /** A word or two, for the help. */
  readonly name: string
  measure(bench: Bench): Promise<Section | readonly Section[]>
}

const load = (scenario: LoadScenario): Pick<Scenario, 'measure'> => ({
  measure: (bench) => measureLoad(scenario, bench),
})

/** In the order in which they run. */
export const SCENARIOS: readonly Scenario[] = [
  { id: 'a', name: 'by-pk', ...load(byPk) },
  { id: 'b', name: 'list', ...load(list) },
  { id: 'c', name: 'nested', ...load(nested) },
  { id: 'd', name: 'filter', ...load(filter) },
  { id: 'g', name: 'stream', measure: measureStream },
  { id: 'h', name: 'files', measure: measureFiles },
  { id: 'i', name: 'cold start', measure: measureColdStart },
  { id: 'n', name: 'mail', measure: measureMail },
  { id: 'q', name: 'GraphQL schema', measure: measureSchema },
  ...GROWTH,
]
