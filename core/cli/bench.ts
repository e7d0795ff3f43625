import { availableParallelism } from 'node:os'
import type { Invocation } from '../cli.js'
import { type Load, type RunningLoad, requestBytes, startLoad } from './bench/load.js'
import { asJson, type Measured, type Step, stepOf, table } from './bench/report.js'
import { JSON_BODY, openTarget, readAdminSecret, type Target } from './bench/target.js'
import { short, type Workload, workloadsOf } from './bench/workload.js'

/** Asks a server that runs, more and more at once, and says how fast it answers. */
export async function bench({ flags, lists, words: [url] }: Invocation): Promise<number> {
  const text = (name: string) => (typeof flags[name] === 'string' ? flags[name] : undefined)
  if (url === undefined) throw new Error('rowhouse bench needs the URL of a server, such as http://localhost:8080')
  const clients = (text('clients') ?? '1,16,64').split(',').map((each) => positive(each, '--clients', true))
  const seconds = positive(text('seconds') ?? '5', '--seconds')
  const caller = {
    headers: lists['header'] ?? [],
    role: text('role'),
    adminSecret: await readAdminSecret(text('admin-secret-file'), process.env),
  }
  const wanted = {
    template: text('template'),
    args: lists['arg'] ?? [],
    query: text('query'),
    graphql: text('graphql'),
    variables: text('variables'),
    writes: flags['writes'] === true,
  }
  const target = await openTarget(url, caller, flags['yes'] === true)
  const abort = new AbortController()
  // Pressed again, it ends the process at once.
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => abort.abort())
  const all: Measured[] = []
  try {
    const workloads = await workloadsOf(wanted, target)
    console.error(
      `${target.url} ${target.caller}; ${availableParallelism()} processors here; ${clients.join(', ')} clients`,
    )
    for (const workload of workloads) {
      if (abort.signal.aborted) break
      const measured = await measure(target, workload, { clients, seconds, signal: abort.signal })
      all.push(measured)
      if (flags['json'] !== true) console.log(table(measured))
    }
  } finally {
    target.close()
  }
  if (flags['json'] === true) console.log(asJson(target, all))
  else console.log(footer(target))
  if (abort.signal.aborted) return 130
  // A figure that does not count must not look like a success.
  return all.every(({ steps }) => steps.every(({ failures }) => failures.length === 0)) ? 0 : 1
}

interface Plan {
  readonly clients: readonly number[]
  readonly seconds: number
  readonly signal: AbortSignal
}

/** A server compiles what it runs often, and so does this client: the first second is not counted. */
const WARM_UP_SECONDS = 1

async function measure(target: Target, workload: Workload, { clients, seconds, signal }: Plan): Promise<Measured> {
  const { name, method, requests } = workload
  const [{ path, body }] = requests as readonly [Workload['requests'][number]]
  const first = await target.ask(method, path, body)
  if (first.status !== 200 || first.text.startsWith('{"errors":')) {
    throw new Error(`${name}: the first answer is ${first.status}: ${short(first.text)}`)
  }
  const wire = requests.map((request) => {
    const headers = request.body === undefined ? target.headers : { ...target.headers, ...JSON_BODY }
    return requestBytes({ method, ...request, headers, path: pathOf(target, request.path) })
  })
  const over = async (clients: number, seconds: number, doing: string): Promise<Load> => {
    const window = { kind: 'seconds', seconds } as const
    const load = startLoad({
      to: target.endpoint,
      request: (n) => wire[n % wire.length] as Buffer,
      clients,
      window,
      signal,
    })
    return shown(load, seconds, `${name}: ${clients} client${clients === 1 ? '' : 's'}, ${doing}`)
  }
  const steps: Step[] = []
  for (const count of clients) {
    await over(count, Math.min(seconds, WARM_UP_SECONDS), 'warming up')
    if (signal.aborted) break
    steps.push(stepOf(count, await over(count, seconds, 'measuring')))
    if (signal.aborted) break
  }
  return { name, requests: requests.length, firstAnswerBytes: Buffer.byteLength(first.text), steps }
}

/** A server may be under a path of its proxy. */
const pathOf = ({ url }: Target, path: string): string => new URL(url).pathname.replace(/\/$/, '') + path

const SHOW_MS = 200

/** One line that changes where somebody looks, and one that stays elsewhere. */
async function shown({ soFar, done }: RunningLoad, seconds: number, what: string): Promise<Load> {
  if (!process.stderr.isTTY) {
    console.error(what)
    return done
  }
  const start = performance.now()
  const timer = setInterval(() => {
    const passed = (performance.now() - start) / 1000
    const rate = Math.round(soFar() / passed)
    process.stderr.write(`\r\x1b[K${what}, ${passed.toFixed(1)} of ${seconds} s, ${rate} requests/s`)
  }, SHOW_MS)
  try {
    return await done
  } finally {
    clearInterval(timer)
    process.stderr.write('\r\x1b[K')
  }
}

function footer({ isThisMachine }: Target): string {
  const shared = isThisMachine
    ? 'The server and this client share the machine, each at the cost of the other.'
    : 'The server is on another machine: the network is measured too.'
  return `${shared}
Each client sends its next request when it has the answer to the one before (a closed loop), so what would have come
while a slow answer was awaited is not asked and not counted: users who come at their own pace wait longer than the
percentiles say. pNN is the shortest time within which NN % of the counted answers were there.`
}

function positive(text: string, option: string, whole = false): number {
  const value = Number(text)
  if (value > 0 && value < 1e5 && (!whole || Number.isInteger(value))) return value
  throw new Error(`${option} should be ${whole ? 'whole numbers' : 'a number'} above 0, not "${text}"`)
}
