import { tmpdir } from 'node:os'
import { PassThrough } from 'node:stream'
import { builtins } from '../../core/cli/builtins.js'
import { loadedCommands } from '../../core/cli/plugin-command.js'
import { patience } from './patience.js'

/** A filestore that does nothing in the background. */
export const QUIET = { collect: { everySeconds: 3600 }, scrub: { bytesPerSecond: 0 } }

export interface Fsck {
  readonly code: number | undefined
  readonly text: string
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly report: any
}

/** A command without arguments that is not heard. */
export function unheard() {
  const place = { env: {}, cwd: tmpdir() }
  const streams = { stdin: new PassThrough(), stdout: new PassThrough(), stderr: new PassThrough() }
  const terminal = { ...place, ...streams, signal: AbortSignal.timeout(patience(60_000)) }
  return { ...place, terminal, flags: {}, lists: {}, words: [], print() {}, tell() {}, rowhouse: async () => 0 }
}

/** Runs `rowhouse fsck` on the database and the folder of a server. */
export async function fsck(databaseUrl: string, dataDir: string, flags: object = {}, file?: string): Promise<Fsck> {
  const database = { url: databaseUrl, poolWaitMs: patience(10_000) }
  const overrides = { database, dataDir, ...(file ? {} : { plugins: { filestore: QUIET } }) }
  const commands = await loadedCommands({
    env: {},
    cwd: tmpdir(),
    ...(file ? { file } : {}),
    overrides,
    builtins: builtins(),
  })
  const lines: string[] = []
  const run = commands.find(({ command }) => command.name === 'fsck')?.run
  const code = await run?.({
    ...unheard(),
    flags: { json: true, ...flags },
    print: (text: string) => void lines.push(text),
  })
  const text = lines.join('\n')
  return { code, text, report: text.startsWith('{') ? JSON.parse(text) : undefined }
}

/** Findings as `kind of file`, `+` when fixed. */
export const found = ({ report }: Pick<Fsck, 'report'>): readonly string[] =>
  (report.findings as { kind: string; file_id?: string; fixed: boolean }[])
    .map(({ kind, file_id: file = '', fixed }) => `${kind} ${file}${fixed ? '+' : ''}`)
    .toSorted()
