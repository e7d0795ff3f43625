import { type Host, type Infer, type Operation, serviceError } from 'rowhouse'
import { untilEnded } from 'rowhouse/queue'
import type { FilestoreConfig } from '../config.js'
import { compare } from './compare.js'
import { resultOf } from './report.js'

/** Findings that a server keeps of a check. */
const MAX_FINDINGS = 1000

interface Run {
  readonly started_at: string
  readonly deep: boolean
}
type Ended = Run & { readonly ended_at: string } & (
    | (ReturnType<typeof resultOf> & { readonly total_findings: number })
    | { readonly error: string }
  )

/** What this server knows of its checks. */
interface State {
  readonly running: (Run & { readonly progress: string }) | null
  readonly last: Ended | null
}

/** `check_files`: what `rowhouse fsck` does, in the background of one process of this server, without `--fix`. */
export function checkFiles(host: Host, { collect }: Pick<FilestoreConfig, 'collect'>) {
  const data = host.use('data')
  const log = host.use('log')
  let state: State = { running: null, last: null }
  let stopping = new AbortController()
  let work = Promise.resolve()

  async function check(run: Run, signal: AbortSignal): Promise<void> {
    const end = (result: Parameters<typeof Object.assign>[0]) => {
      state = { running: null, last: { ...run, ended_at: new Date().toISOString(), ...result } as Ended }
    }
    const context = {
      query: data.query.bind(data) as typeof data.query,
      provider: host.provider.bind(host) as Host['provider'],
      providerNames: host.providerNames.bind(host) as Host['providerNames'],
      tell: (progress: string) => (state = { ...state, running: { ...run, progress } }),
      signal,
    }
    try {
      const report = await compare(context, { deep: run.deep, fix: false, everySeconds: collect.everySeconds })
      end({ ...resultOf(report, MAX_FINDINGS), total_findings: report.findings.length })
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error }, 'stored files could not be checked')
      end({ error: signal.aborted ? 'stopped' : 'the check failed; the log has details' })
    }
  }

  const act = host.inOneProcess('check_files', async ({ start = false, deep = false, stop = false }: Args) => {
    if (stop) {
      stopping.abort()
      await untilEnded(work)
    }
    if (start && !state.running) {
      const run = { started_at: new Date().toISOString(), deep }
      state = { ...state, running: { ...run, progress: '' } }
      stopping = new AbortController()
      work = check(run, stopping.signal)
    }
    return state
  })
  const operation: Operation = {
    admin: true,
    args: ARGS,
    async run(args, call) {
      const asked = args as Args
      if (asked.start !== undefined && call.transaction)
        throw serviceError('not-supported', 'a bulk cannot start a check')
      return { kind: 'text', text: JSON.stringify(await act(asked)) }
    },
  }
  return {
    operation,
    async stop() {
      stopping.abort()
      await untilEnded(work)
    },
  }
}

const ARGS = {
  type: 'object',
  properties: {
    start: { type: 'boolean', description: 'Starts a check unless one is running.' },
    deep: { type: 'boolean', description: 'Whether to read the bytes of all files.' },
    stop: {
      type: 'boolean',
      description:
        'Stops the check that is running. It still runs in the answer if a store does not react within two seconds.',
    },
  },
} as const
type Args = Infer<typeof ARGS>
