import { availableParallelism, cpus, loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { cluster } from './cluster/cluster.js'
import { events } from './events/events.js'
import { files } from './files/files.js'
import { fuzz } from './fuzz.js'
import { hostile } from './hostile/hostile.js'
import { keys } from './keys/keys.js'
import { live } from './live/live.js'
import { noninterference } from './noninterference/noninterference.js'
import { notify } from './notify/notify.js'
import type { Part, Score } from './part.js'

/**
 * `npm run trust`: long loops of faults and fuzz, each of which ends in a row of a table. What must never happen is a
 * violation; times are figures.
 */
const PARTS: Readonly<Record<string, Part>> = {
  hostile,
  fuzz,
  noninterference,
  files,
  notify,
  events,
  live,
  keys,
  cluster,
}
const SHOWN = 30
const ALIKE = 120

const USAGE = `npm run trust -- [part...] [--minutes N] [--seed N] [--only PATTERN] [--profile FOLDER]

${Object.entries(PARTS)
  .map(([name, { about }]) => `  ${name.padEnd(16)} ${about}`)
  .join('\n')}

  --minutes N       about how long each part takes, default 5
  --seed N          where random choices begin, default: the time, and printed
  --only PATTERN    of a part only what has such a name, to look at it more closely
  --profile FOLDER  where servers under attack leave a CPU profile each

Without a part: all of them. Exit code 1 when there are violations.`

const { names, ...options } = readOptions()
const scores = new Map<string, Score>()
console.error(`seed ${options.seed}; ${options.minutes} minutes for each part`)
for (const name of names) scores.set(name, await run(name, PARTS[name] as Part))
console.log(`\n${heading()}\n\n${table()}`)
for (const [name, score] of scores) if (score.table !== undefined) console.log(`\n${name}:\n\n${score.table}`)
for (const [name, { violations }] of scores) for (const each of alike(violations)) console.log(`\n${name}: ${each}`)
// What tests leave behind, as a database on its way down, does not hold up the end.
process.exit([...scores.values()].some(({ violations }) => violations.length > 0) ? 1 : 0)

/** A part that breaks off is a violation like others: the rest still runs. */
async function run(name: string, part: Part): Promise<Score> {
  try {
    return await part.run({ ...options, progress: (text) => console.error(`${name}: ${text}`) })
  } catch (error) {
    const why = error instanceof Error ? (error.stack ?? error.message) : String(error)
    return { done: 'broke off', violations: [why], figures: [] }
  }
}

/** Violations that differ in numbers only are shown once. */
function alike(violations: readonly string[]): string[] {
  const groups = new Map<string, string[]>()
  for (const each of violations) {
    const key = each.replaceAll(/\d+/g, '0').slice(0, ALIKE)
    groups.set(key, [...(groups.get(key) ?? []), each])
  }
  const shown = [...groups.values()].map(([first = '', ...more]) =>
    more.length === 0 ? first : `${first}\n  and ${more.length} like it`,
  )
  return shown.length > SHOWN ? [...shown.slice(0, SHOWN), `and ${shown.length - SHOWN} other kinds`] : shown
}

function heading(): string {
  const load = (loadavg()[0] ?? 0).toFixed(1)
  return `${availableParallelism()} CPUs (${cpus()[0]?.model ?? ''}), load ${load}, Node ${process.version}; servers, database and clients share them.`
}

function table(): string {
  const rows = [...scores].map(([name, { done, violations, figures }]) => [
    name,
    done,
    String(violations.length),
    figures.join('; '),
  ])
  const head = ['part', 'what was done', 'violations', 'figures']
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n')
}

function readOptions() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        minutes: { type: 'string', default: '5' },
        seed: { type: 'string', default: String(Math.floor(Date.now() / 1000)) },
        only: { type: 'string', default: '' },
        profile: { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    })
    if (values.help) {
      console.log(USAGE)
      process.exit(0)
    }
    for (const name of positionals) if (!Object.hasOwn(PARTS, name)) throw new Error(`no part "${name}"`)
    return {
      names: positionals.length > 0 ? positionals : Object.keys(PARTS),
      minutes: above0(values.minutes, '--minutes'),
      seed: above0(values.seed, '--seed'),
      only: new RegExp(values.only),
      ...(values.profile === undefined ? {} : { profile: values.profile }),
    }
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`)
    process.exit(2)
  }
}

function above0(text: string, option: string): number {
  const value = Number(text)
  if (Number.isFinite(value) && value > 0) return value
  throw new Error(`${option} should be a number above 0, not "${text}"`)
}
