import { availableParallelism } from 'node:os'
import type { Invocation } from '../cli.js'
import { isEmptyAnswer, problemOf, RefusedError } from './bench/first-answer.js'
import { type Load, type RunningLoad, requestBytes, startLoad } from './bench/load.js'
import { asJson, type Measured, type Skipped, type Step, stepOf, table } from './bench/report.js'
import { JSON_BODY, openTarget, readAdminSecret, type Target } from './bench/target.js'
import { UsageError } from './bench/usage.js'
import { checkWanted, type Wanted, type Workload, workloadsOf } from './bench/workload.js'

/** Asks a server that runs, more and more at once, and says how fast it answers. */
export async function bench(invocation: Invocation): Promise<number> {
  try {
    return await run(invocation)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    console.error(`rowhouse bench: ${error.message}\nrowhouse bench --help tells more.`)
    return 2
  }
}

async function run({ flags, lists, words: [url] }: Invocation): Promise<number> {
  const text = (name: string) => (typeof flags[name] === 'string' ? flags[name] : undefined)
  if (url === undefined) throw new UsageError('it needs the URL of a server, such as http://localhost:8080')
  const clients = (text('clients') ?? '1,16,64').split(',').map((each) => positive(each, '--clients', true))
  const seconds = positive(text('seconds') ?? '5', '--seconds')
  const wanted = {
    template: text('template'),
    args: lists['arg'] ?? [],
    query: text('query'),
    graphql: text('graphql'),
    variables: text('variables'),
    writes: flags['writes'] === true,
  }
  checkWanted(wanted)
  const caller = {
    headers: lists['header'] ?? [],
    role: text('role'),
    adminSecret: await readAdminSecret(text('admin-secret-file'), process.env),
  }
  const target = await openTarget(url, caller, flags['yes'] === true)
  const processors = availableParallelism()
  const abort = new AbortController()
  const { signal } = abort
  // Pressed again, it ends the process at once.
  for (const name of ['SIGINT', 'SIGTERM']) process.once(name, () => abort.abort())
  const all: Measured[] = []
  let version: string | undefined
  let skipped: readonly Skipped[]
  try {
    const found = await tried(wanted, target)
    skipped = found.skipped
    version = await versionOf(target)
    console.error(
      `${target.url} ${target.caller}; ${processors} processors here; ${clients.join(', ')} client${clients.join() === '1' ? '' : 's'}`,
    )
    for (const { workload, firstAnswer } of found.ready) {
      if (signal.aborted) break
      const measured = await measure(target, workload, firstAnswer, { clients, seconds, signal })
      all.push(measured)
      if (flags['json'] !== true) console.log(table(measured))
    }
  } finally {
    target.close()
  }
  if (flags['json'] === true) {
    const headers = (lists['header'] ?? []).map((line) => line.replace(/:[^]*/, ''))
    const options = { ...wanted, role: caller.role, headers, clients, seconds }
    console.log(asJson({ target, version, processors, options, interrupted: signal.aborted, skipped, workloads: all }))
  } else if (all.length === 0) console.log('interrupted before anything was measured')
  else if (all.some(({ steps }) => steps.length > 0)) console.log(footer(target))
  if (signal.aborted) return 130
  // A figure that does not count must not look like a success.
  return all.every(({ steps }) => steps.every(({ failures }) => failures.length === 0)) ? 0 : 1
}

interface Tried {
  readonly ready: readonly { readonly workload: Workload; readonly firstAnswer: string }[]
  readonly skipped: readonly Skipped[]
}

/**
 * Asks each once. Templates that nobody named are left out when that fails, unless all do.
 * @throws RefusedError
 */
async function tried(wanted: Wanted, target: Target): Promise<Tried> {
  const ready: { workload: Workload; firstAnswer: string }[] = []
  const skipped: Skipped[] = []
  for (const workload of await workloadsOf(wanted, target)) {
    const { name, method, requests } = workload
    const [{ path, body }] = requests as readonly [Workload['requests'][number]]
    const told = await target.ask(method, path, body)
    const why = problemOf(told, target, name)
    if (why === undefined) ready.push({ workload, firstAnswer: told.text })
    else skipped.push({ name, why })
  }
  const reasons = skipped.map(({ why }) => why)
  if (ready.length === 0) throw new RefusedError(reasons.join('\n'))
  for (const why of reasons) console.error(`left out: ${why}`)
  return { ready, skipped }
}

async function versionOf(target: Target): Promise<string | undefined> {
  try {
    const { version } = JSON.parse((await target.ask('GET', '/v1/version')).text) as { readonly version?: unknown }
    return typeof version === 'string' ? version : undefined
  } catch {
    return undefined
  }
}

interface Plan {
  readonly clients: readonly number[]
  readonly seconds: number
  readonly signal: AbortSignal
}

/** A server compiles what it runs often, and so does this client: the first second is not counted. */
const WARM_UP_SECONDS = 1

async function measure(
  target: Target,
  workload: Workload,
  firstAnswer: string,
  { clients, seconds, signal }: Plan,
): Promise<Measured> {
  const { name, method, requests } = workload
  const firstAnswerEmpty = isEmptyAnswer(firstAnswer)
  if (firstAnswerEmpty) console.error(`${name}: the first answer is empty, ${firstAnswer.trim() || 'without a byte'}`)
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
    const load = await over(count, seconds, 'measuring')
    steps.push(stepOf(count, load, signal.aborted))
    if (signal.aborted) break
  }
  return { name, requests: requests.length, firstAnswerBytes: Buffer.byteLength(firstAnswer), firstAnswerEmpty, steps }
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
  throw new UsageError(`${option} should be ${whole ? 'whole numbers' : 'a number'} above 0, not "${text}"`)
}
