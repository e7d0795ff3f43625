import { parseArgs } from 'node:util'
import { FULL, type Size, SMALL } from './data.js'
import type { Window } from './load/load.js'
import { PEERS } from './peers.js'
import { type PeerUrl, readPeerUrl } from './peers-by-url.js'
import { type Scenario, SCENARIOS } from './scenarios/index.js'

/** For somebody to start servers that are asked by their URL. */
export const WAIT_MINUTES = 10
const QUICK = SCENARIOS.filter(({ quick }) => quick === true)
const COMPARABLE = SCENARIOS.filter(({ compared }) => compared !== undefined).map(({ id }) => id)
/** What a comparison of two builds is made of: the fewer, the more starts. */
const COMPARED = ['a', 'c', 'e']
const MINUTES = 6

/** Of the help, in characters. */
const WIDTH = 100

export const USAGE = `npm run bench -- [--full] [--only a,b] [--peers all] [--rounds N]
                 [--seconds N | --requests N] [--json FILE] [--save] [--markdown]
                 [--compare REF [--minutes N]] [--help]

  without options  about 4 minutes:
${listOf(QUICK)}
  --full           every scenario, with large data: 10,000 authors, 200,000 articles, 1,000,000
                   comments instead of a hundredth of them; 1 GiB as the largest file instead of
                   128 MiB; 9 rounds of 3 s
  --only a,b       some scenarios, of those above or of these:
${listOf(SCENARIOS.filter(({ quick }) => quick !== true))}
  --peers a,b      other servers beside ours, installed when they are first asked for: all, or some
                   of ${PEERS.join(', ')}
  --peer NAME=URL  hasura, postgrest or supabase, which somebody runs on the data of the bench (see
                   bench/README.md): the bench says where its data is and waits ${WAIT_MINUTES}
                   minutes; may be given more than once
  --compare REF    CPU time per request of this build beside that of a git commit, branch or tag,
                   in ${COMPARED.join(', ')}, or in some of ${COMPARABLE.join(', ')}
  --minutes N      how long --compare measures at most: ${MINUTES}
  --json FILE      where the result goes, with the report beside it as FILE.html; without it
                   both go into a temporary folder
  --save           keeps the result in bench/results/ as well: later reports show its history
  --markdown       prints a short table for a README, in place of all figures
  --rounds N       windows of each system: 5, with --full 9; fewer prove nothing
  --seconds N      length of a window: 1, with --full 3
  --requests N     windows of so many requests instead of seconds, on less data: to see that the
                   bench runs, not to measure

  Exit codes: 0 when all was measured, and with --compare nothing is worse; 1 when a figure does
  not count, or with --compare something is worse; 2 for a wrong call; 3 when --compare had too few
  starts or too much noise for a verdict; 129, 130 or 143 when interrupted.`

export interface Options {
  readonly window: Window
  readonly rounds: number
  readonly size: Size
  readonly full: boolean
  readonly peers: readonly string[]
  readonly peerUrls: readonly PeerUrl[]
  readonly scenarios: readonly Scenario[]
  readonly json?: string
  readonly save: boolean
  readonly markdown: boolean
  /** A commit to compare with. */
  readonly compare?: string
  /** Of a comparison, at most. */
  readonly minutes: number
}

/**
 * @param args as they come from the command line
 * @returns 'help' when that was asked for
 * @throws Error that says what is wrong with them
 */
export function readOptions(args: readonly string[]): Options | 'help' {
  const { values, tokens } = parseArgs({
    args: [...args],
    tokens: true,
    options: {
      seconds: { type: 'string' },
      requests: { type: 'string' },
      rounds: { type: 'string' },
      only: { type: 'string' },
      json: { type: 'string' },
      compare: { type: 'string' },
      minutes: { type: 'string' },
      save: { type: 'boolean', default: false },
      markdown: { type: 'boolean', default: false },
      full: { type: 'boolean', default: false },
      peers: { type: 'string' },
      peer: { type: 'string', multiple: true, default: [] },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return 'help'
  const given = tokens.flatMap((token) => (token.kind === 'option' ? token.name : []))
  const twice = given.find((name, i) => name !== 'peer' && given.indexOf(name) !== i)
  if (twice !== undefined) throw new Error(`--${twice} is there twice`)
  if (values.requests !== undefined && values.seconds !== undefined)
    throw new Error('a window is of so many --requests or of so many --seconds, not both')
  const { full, compare, peers, peer, json, save, markdown, only } = values
  if (compare !== undefined && (peers !== undefined || peer.length > 0))
    throw new Error('--compare measures builds of ours, without --peers and --peer')
  if (new Set(peer).size < peer.length) throw new Error('--peer names the same server twice')
  if (compare !== undefined && save) throw new Error('--compare is of two builds, and --save keeps what is of one')
  if (values.requests !== undefined && save)
    throw new Error('--save keeps what was measured, and windows of --requests prove nothing')
  if (compare === undefined && values.minutes !== undefined) throw new Error('--minutes belongs to --compare')
  const comparing = compare !== undefined
  return {
    window:
      values.requests === undefined
        ? { kind: 'seconds', seconds: whole(values.seconds ?? (full ? '3' : '1'), '--seconds') }
        : { kind: 'requests', requests: whole(values.requests, '--requests') },
    rounds: whole(values.rounds ?? (full ? '9' : '5'), '--rounds'),
    size: full ? FULL : SMALL,
    full,
    peers: peersOf(peers),
    peerUrls: peer.map(readPeerUrl),
    scenarios: chosen(only, comparing, full),
    save,
    markdown,
    json,
    compare,
    minutes: whole(values.minutes ?? String(MINUTES), '--minutes'),
  }
}

function chosen(only: string | undefined, comparing: boolean, full: boolean): readonly Scenario[] {
  if (only === undefined && !comparing) return full ? SCENARIOS : QUICK
  const ids = only?.split(',') ?? COMPARED
  const those = comparing ? COMPARABLE : SCENARIOS.map(({ id }) => id)
  const unknown = ids.find((id) => !those.includes(id))
  if (unknown !== undefined)
    throw new Error(
      `--only: there is no scenario "${unknown}": ${comparing ? 'with --compare ' : ''}there are ${those.join(', ')}`,
    )
  return SCENARIOS.filter(({ id }) => ids.includes(id))
}

function peersOf(names: string | undefined): readonly string[] {
  if (names === 'all') return PEERS
  const wanted = names?.split(',') ?? []
  const unknown = wanted.find((name) => !PEERS.includes(name))
  if (unknown === undefined) return wanted
  throw new Error(`--peers: there is no "${unknown}": there are all, or ${PEERS.join(', ')}`)
}

/** Ids and names, in lines below the options. */
function listOf(scenarios: readonly Scenario[]): string {
  const lines: string[] = []
  for (const { id, name } of scenarios) {
    const last = lines.at(-1)
    if (last !== undefined && `${last}, ${id} ${name},`.length <= WIDTH) lines.splice(-1, 1, `${last}, ${id} ${name}`)
    else lines.push(`${' '.repeat(19)}${id} ${name}`)
  }
  return lines.join(',\n')
}

function whole(text: string, option: string): number {
  const value = Number(text)
  if (Number.isInteger(value) && value > 0) return value
  throw new Error(`${option} should be a whole number above 0, not "${text}"`)
}
