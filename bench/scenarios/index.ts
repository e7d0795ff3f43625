import type { Bench } from '../bench.js'
import { measureLoad } from '../load-rounds.js'
import type { Section } from '../section.js'
import { measureWrite } from '../write-rounds.js'
import { byPk } from './by-pk.js'
import { measureColdStart } from './cold-start.js'
import { measureFiles } from './files.js'
import { filter } from './filter.js'
import { measureFlood } from './flood.js'
import { measureHeadOfLine } from './head-of-line.js'
import { list } from './list.js'
import { measureMail } from './mail.js'
import { nested } from './nested.js'
import { measureRoles } from './roles.js'
import { measureRules } from './rules.js'
import type { LoadScenario } from './scenario.js'
import { measureOutage } from './outage.js'
import { measureSchema } from './schema.js'
import { measureSoak } from './soak.js'
import { measureStream } from './stream.js'
import { measureTemplates } from './templates.js'
import { insertMany, insertOne, type WriteScenario } from './write.js'

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

const write = (scenario: WriteScenario): Pick<Scenario, 'measure'> => ({
  measure: (bench) => measureWrite(scenario, bench),
})

/** In the order in which they run. */
export const SCENARIOS: readonly Scenario[] = [
  { id: 'a', name: 'by-pk', ...load(byPk) },
  { id: 'b', name: 'list', ...load(list) },
  { id: 'c', name: 'nested', ...load(nested) },
  { id: 'd', name: 'filter', ...load(filter) },
  { id: 'e', name: 'insert 1', ...write(insertOne) },
  { id: 'f', name: 'insert 1,000', ...write(insertMany) },
  { id: 'g', name: 'stream', measure: measureStream },
  { id: 'h', name: 'files', measure: measureFiles },
  { id: 'i', name: 'cold start', measure: measureColdStart },
  { id: 'j', name: 'head of line', measure: measureHeadOfLine },
  { id: 'k', name: 'flood of new forms', measure: measureFlood },
  { id: 'l', name: 'many roles', measure: measureRoles },
  { id: 'm', name: 'rules by row', measure: measureRules },
  { id: 'n', name: 'mail', measure: measureMail },
  { id: 'o', name: 'soak', measure: measureSoak },
  { id: 'q', name: 'GraphQL schema', measure: measureSchema },
  { id: 'r', name: 'templates', measure: measureTemplates },
  { id: 's', name: 'outage', measure: measureOutage },
]
