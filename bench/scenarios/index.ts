import type { Bench } from '../bench.js'
import type { Size } from '../data.js'
import { measureLoad } from '../load-rounds.js'
import type { Section } from '../section.js'
import { measureWrite } from '../write-rounds.js'
import { measureAttackers } from './attackers.js'
import { byPk } from './by-pk.js'
import { measureColdStart } from './cold-start.js'
import { measureFiles } from './files.js'
import { filter } from './filter.js'
import { measureFlood } from './flood.js'
import { GROWTH } from './growth/index.js'
import { measureHeadOfLine } from './head-of-line.js'
import { list } from './list.js'
import { measureMail } from './mail.js'
import { nested } from './nested.js'
import { measureProcesses } from './processes.js'
import { measureRoles } from './roles.js'
import { measureRules } from './rules.js'
import type { LoadScenario } from './scenario.js'
import { measureOutage } from './outage.js'
import { measureSchema } from './schema.js'
import { measureSoak } from './soak.js'
import { measureStream } from './stream.js'
import { measureTemplates } from './templates.js'
import { insertMany, insertOf, insertOne, type WriteScenario } from './write.js'

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
  /** Where builds are compared in it: the body of the n-th request. */
  compared?(n: number, size: Size): object
}

const load = (scenario: LoadScenario): Pick<Scenario, 'measure' | 'compared'> => ({
  measure: (bench) => measureLoad(scenario, bench),
  compared: (n, size) => scenario.request(n, size),
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
  { id: 'e', name: 'insert 1', quick: true, seconds: 28, ...write(insertOne), compared: (n) => insertOf(n, insertOne) },
  { id: 'f', name: 'insert 1,000', quick: true, seconds: 28, ...write(insertMany) },
  { id: 'g', name: 'stream', quick: true, seconds: 10, measure: measureStream },
  { id: 'h', name: 'files', measure: measureFiles },
  { id: 'i', name: 'cold start', quick: true, seconds: 22, measure: measureColdStart },
  { id: 'j', name: 'head of line', measure: measureHeadOfLine },
  { id: 'k', name: 'flood of new forms', measure: measureFlood },
  { id: 'l', name: 'many roles', measure: measureRoles },
  { id: 'm', name: 'rules by row', measure: measureRules },
  { id: 'n', name: 'mail', measure: measureMail },
  { id: 'o', name: 'soak', measure: measureSoak },
  { id: 'q', name: 'GraphQL schema', measure: measureSchema },
  { id: 'r', name: 'templates', measure: measureTemplates },
  { id: 's', name: 'outage', measure: measureOutage },
  { id: 't', name: 'attackers', measure: measureAttackers },
  { id: 'u', name: 'processes', measure: measureProcesses },
  ...GROWTH,
]
