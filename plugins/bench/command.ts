import { availableParallelism } from 'node:os'
import type { CommandContext, PluginCommand } from 'rowhouse'
import { type Load, requestBytes, startLoad } from './load.js'
import { asJson, footer, type Measured, stepOf, table } from './report.js'
import { JSON_BODY, isEmptyAnswer, openTarget, problemOf, type Target, UsageError } from './target.js'
import { readText, type Workload, workloadsOf } from './workload.js'

/** `rowhouse bench`: sends requests to a running server with more and more clients, and prints how fast it responds. */
export const bench: PluginCommand = {
  name: 'bench',
  summary: 'measure how fast a running server responds to your requests',
  usage: `rowhouse bench URL [--template NAME [--arg NAME=VALUE]... | --query FILE | --graphql FILE [--variables FILE]]
  [--role R] [--header 'NAME: VALUE']... [--clients 1,16,64] [--seconds 5] [--json] [--writes] [--yes]`,
  help: `Repeats requests with more and more clients, and prints requests/s, percentiles of the response time, and failures.
Without a request, it runs each template that only reads and needs no argument. The first second is not counted. Ctrl-C
prints the results so far. The exit code is 1 if a request failed.

  --template NAME         run a query template over REST
  --arg NAME=VALUE        an argument of the template; the values of FROM..TO, or of several --arg with the same name,
                          are used in turn
  --query FILE            bodies for POST /v1/query: one, a JSON list, or one per line, used in turn
  --graphql FILE          a document for POST /v1/graphql
  --variables FILE        its variables: one object, a JSON list, or one per line, used in turn
  --role R                send requests as this role
  --header 'NAME: VALUE'  send a header, such as Authorization or X-Service-User-Id, with each request
  --admin-secret-file F   send the admin secret in this file, such as .rowhouse/admin-secret. The default is that of
                          ROWHOUSE_ADMIN_SECRET, unless a --header authenticates
  --clients LIST          numbers of clients, measured one after the other (default 1,16,64)
  --seconds N             seconds to measure each number of clients (default 5)
  --json                  print the results as JSON
  --writes                allow requests that change data repeatedly
  --yes                   allow an address that is neither this machine nor in a private network`,
  standalone: true,
  words: 1,
  flags: {
    template: 'string',
    arg: 'list',
    query: 'string',
    graphql: 'string',
    variables: 'string',
    role: 'string',
    header: 'list',
    'admin-secret-file': 'string',
    clients: 'string',
    seconds: 'string',
    json: 'boolean',
    writes: 'boolean',
    yes: 'boolean',
  },
  async run(context) {
    try {
      return await run(context)
    } catch (error) {
      if (!(error instanceof UsageError)) throw error
      context.tell(`rowhouse bench: ${error.message}\nRun rowhouse bench --help for the options.`)
      return 2
    }
  },
}

async function run({ flags, lists, words: [url], env, cwd, signal, print, tell }: CommandContext): Promise<number> {
  const text = (name: string) => flags[name] as string | undefined
  if (url === undefined) throw new UsageError('expecting the URL of a server, such as http://localhost:8080')
  const clients = (text('clients') ?? '1,16,64').split(',').map((each) => positive(each, '--clients', true))
  const seconds = positive(text('seconds') ?? '5', '--seconds')
  const [template, query, graphql, variables] = ['template', 'query', 'graphql', 'variables'].map(text)
  const source = { template, args: lists['arg'] ?? [], query, graphql, variables, writes: flags['writes'] === true }
  const find = workloadsOf(source, cwd)
  const file = text('admin-secret-file')
  const adminSecret = file === undefined ? env['ROWHOUSE_ADMIN_SECRET'] : (await readText(file, cwd)).trim()
  const role = text('role')
  const target = await openTarget(url, { headers: lists['header'] ?? [], role, adminSecret }, flags['yes'] === true)
  const processors = availableParallelism()
  const workloads: Measured[] = []
  const { ready, skipped } = await tryFirst(await find(target), target)
  for (const { why } of skipped) tell(`skipped: ${why}`)
  const response = await target.ask('GET', '/v1/version').catch(() => undefined)
  const version = /"version": ?"([^"]+)"/.exec(response?.text ?? '')?.[1]
  const noun = clients.join() === '1' ? 'client' : 'clients'
  tell(`${target.url} ${target.caller}; ${processors} processors here; ${clients.join(', ')} ${noun}`)
  for (const each of ready) {
    if (signal.aborted) break
    const measured = await measure(target, each, { clients, seconds, signal, tell })
    workloads.push(measured)
    if (flags['json'] !== true) print(table(measured))
  }
  if (flags['json'] === true) {
    const headers = (lists['header'] ?? []).map((line) => line.replace(/:[^]*/, ''))
    const options = { ...source, role, headers, clients, seconds }
    print(asJson({ target, version, processors, options, interrupted: signal.aborted, skipped, workloads }))
  } else if (workloads.length === 0) print('interrupted before anything was measured')
  else if (workloads.some(({ steps }) => steps.length > 0)) print(footer(target))
  if (signal.aborted) return 130
  // A measurement with failures must not look like a success.
  return workloads.every(({ steps }) => steps.every(({ failures }) => failures.length === 0)) ? 0 : 1
}

interface Ready {
  readonly workload: Workload
  readonly firstAnswer: string
}

/**
 * Sends the first request of each workload, and skips the workloads that fail.
 * @throws Error with the reasons if all fail
 */
async function tryFirst(workloads: readonly Workload[], target: Target) {
  const ready: Ready[] = []
  const skipped: { readonly name: string; readonly why: string }[] = []
  for (const workload of workloads) {
    const { name, method, requests } = workload
    const response = await target.ask(method, requests[0]?.path ?? '', requests[0]?.body)
    const why = problemOf(response, target, name)
    if (why === undefined) ready.push({ workload, firstAnswer: response.text })
    else skipped.push({ name, why })
  }
  if (ready.length === 0) throw new Error(skipped.map(({ why }) => why).join('\n'))
  return { ready, skipped }
}

interface Plan extends Pick<CommandContext, 'signal' | 'tell'> {
  readonly clients: readonly number[]
  readonly seconds: number
}

/** Not counted: server and client first compile the code that runs often. */
const WARM_UP_SECONDS = 1

async function measure(
  { url, endpoint, headers }: Target,
  { workload: { name, method, requests }, firstAnswer }: Ready,
  { clients, seconds, signal, tell }: Plan,
): Promise<Measured> {
  const empty = isEmptyAnswer(firstAnswer)
  if (empty) tell(`${name}: the first response is empty: ${firstAnswer.trim() || '0 bytes'}`)
  // A proxy may serve the API under a path.
  const base = new URL(url).pathname.replace(/\/$/, '')
  const wire = requests.map(({ path, body }) =>
    requestBytes({
      method,
      path: base + path,
      headers: body === undefined ? headers : { ...headers, ...JSON_BODY },
      body,
    }),
  )
  const load = (count: number, duration: number): Promise<Load> =>
    startLoad({
      to: endpoint,
      request: (n) => wire[n % wire.length] as Buffer,
      clients: count,
      window: { kind: 'seconds', seconds: duration },
      signal,
    })
  const measured: Measured = {
    name,
    requests: requests.length,
    firstAnswerBytes: Buffer.byteLength(firstAnswer),
    firstAnswerEmpty: empty,
    steps: [],
  }
  for (const count of clients) {
    const step = `${name}: ${count} client${count === 1 ? '' : 's'}`
    tell(`${step}, warming up`)
    await load(count, Math.min(seconds, WARM_UP_SECONDS))
    if (signal.aborted) break
    tell(`${step}, measuring`)
    measured.steps.push(stepOf(count, await load(count, seconds), signal.aborted))
    if (signal.aborted) break
  }
  return measured
}

function positive(text: string, option: string, whole = false): number {
  const value = Number(text)
  if (value > 0 && value < 1e5 && (!whole || Number.isInteger(value))) return value
  throw new UsageError(`${option} must be ${whole ? 'integers' : 'a number'} above 0, not "${text}"`)
}
