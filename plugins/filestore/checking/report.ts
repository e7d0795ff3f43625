import type { Damage } from './verify.js'

/** The result of `rowhouse fsck`. */
export interface Report {
  readonly deep: boolean
  readonly fix: boolean
  files: number
  blobs: number
  readonly stores: StoreReport[]
  /** Files whose bytes were read. */
  readonly read: { files: number; bytes: number }
  /** Files that were recorded as damaged and are intact now. */
  repaired: number
  readonly findings: Finding[]
}

export interface StoreReport {
  readonly provider: string
  readonly objects?: number
  readonly bytes?: number
  /** Why the store could not be checked. */
  problem?: string
  /** What was ignored or is suspicious. */
  readonly notes: string[]
}

export interface Finding {
  readonly kind: Kind
  readonly provider: string
  readonly blob: string
  readonly file?: string
  /** Path of the bytes, if the store has paths. */
  readonly path?: string
  readonly detail: string
  readonly fixed: boolean
}

/**
 * `record`: file and blob contradict each other; `unowned`: no file uses the blob; `abandoned`: the upload did not finish, or was not attached;
 * `orphan`: an object without a row.
 */
type Kind = Damage | 'unreadable' | 'record' | 'unowned' | 'abandoned' | 'orphan'

const RESTORE = 'restore the bytes from a backup and run rowhouse fsck again, or upload the file again'
const ADVICE: Readonly<Record<Kind, string>> = {
  missing: RESTORE,
  size: RESTORE,
  sha256: RESTORE,
  unreadable: 'repair the store, and run rowhouse fsck again',
  record: 'upload the file again; its row in svc_catalog.svc_file or svc_blob was changed by SQL',
  unowned: 'rowhouse fsck --fix leaves it to the collector',
  abandoned: 'rowhouse fsck --fix leaves it to the collector, as a running server does',
  orphan: 'rowhouse fsck --fix deletes it',
}

export const newReport = (deep: boolean, fix: boolean): Report => ({
  deep,
  fix,
  files: 0,
  blobs: 0,
  stores: [],
  read: { files: 0, bytes: 0 },
  repaired: 0,
  findings: [],
})

export const isClean = ({ findings, stores }: Report): boolean =>
  findings.every(({ fixed }) => fixed) && stores.every(({ problem }) => problem === undefined)

/** Returns the result for clients, with the first findings. */
export function resultOf(report: Report, maxFindings = Infinity) {
  const { files, blobs, stores, read, repaired, deep, fix } = report
  const findings = report.findings.slice(0, maxFindings).map(({ file, ...finding }) => ({
    ...finding,
    file_id: file,
    advice: finding.fixed ? undefined : ADVICE[finding.kind],
  }))
  return { clean: isClean(report), deep, fix, files, blobs, stores, read, repaired, findings }
}

export const jsonOf = (report: Report): string => JSON.stringify(resultOf(report), null, 2)

/** Returns lines: the findings, what to do about them, and a summary. */
export function linesOf(report: Report): readonly string[] {
  const { findings, stores, repaired } = report
  const remaining = findings.filter(({ fixed }) => !fixed)
  const kinds = [...new Set(remaining.map(({ kind }) => kind))]
  const width = Math.max(0, ...kinds.map(({ length }) => length))
  return [
    ...findings.map(line),
    ...(kinds.length === 0 ? [] : ['', 'What to do:']),
    ...kinds.map((kind) => `  ${kind.padEnd(width)}  ${ADVICE[kind]}`),
    ...(findings.length === 0 ? [] : ['']),
    ...stores.flatMap(({ provider, problem, notes }) =>
      [...(problem === undefined ? [] : [problem]), ...notes].map((text) => `store ${provider}: ${text}`),
    ),
    ...(repaired === 0 ? [] : [`intact again: ${repaired}`]),
    summary(report, remaining.length),
  ]
}

function line({ kind, provider, blob, file, path, detail, fixed }: Finding): string {
  const what = file === undefined ? '' : ` file ${JSON.stringify(file)}`
  const where = path === undefined ? `blob ${blob} in ${provider}` : path
  return `${kind}:${what} ${detail} (${where})${fixed ? ': fixed' : ''}`
}

function summary({ files, blobs, stores, read, findings }: Report, remaining: number): string {
  const objects = stores.reduce((sum, store) => sum + (store.objects ?? 0), 0)
  const known = [count(files, 'file'), count(blobs, 'blob'), count(objects, 'object')].join(', ')
  const checked = `${known} in the stores; read ${read.files}`
  const fixed = findings.length - remaining
  return `${checked}: ${fixed === 0 ? '' : `${fixed} fixed, `}${outcome(stores, remaining)}`
}

const count = (number: number, what: string): string => `${number} ${what}${number === 1 ? '' : 's'}`

function outcome(stores: readonly StoreReport[], remaining: number): string {
  if (remaining > 0) return `${remaining} ${remaining === 1 ? 'finding remains' : 'findings remain'}`
  return stores.some(({ problem }) => problem !== undefined) ? 'not all stores could be checked' : 'clean'
}
