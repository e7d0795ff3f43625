import type { Damage } from '../verify.js'

/** What was looked at and what was found. */
export interface Report {
  readonly deep: boolean
  readonly fix: boolean
  files: number
  blobs: number
  readonly stores: StoreReport[]
  /** Files whose bytes were read. */
  readonly read: { files: number; bytes: number }
  /** Files that were known to be damaged and are whole now. */
  repaired: number
  readonly findings: Finding[]
}

export interface StoreReport {
  readonly provider: string
  readonly objects?: number
  readonly bytes?: number
  /** Why it could not be looked at. */
  problem?: string
  /** What was not looked at, or looks odd. */
  readonly notes: string[]
}

export interface Finding {
  readonly kind: Kind
  readonly provider: string
  readonly blob: string
  readonly file?: string
  /** Where the bytes are or should be, if the store can tell. */
  readonly path?: string
  readonly detail: string
  fixed: boolean
}

/** record: file and blob say different things; unowned: no file has the blob; abandoned: an upload; orphan: bytes alone. */
export type Kind = Damage | 'unreadable' | 'record' | 'unowned' | 'abandoned' | 'orphan'

const ADVICE: Readonly<Record<Kind, string>> = {
  missing: 'put the bytes back from a backup and run rowhouse fsck again, or upload the file again',
  size: 'put the bytes back from a backup and run rowhouse fsck again, or upload the file again',
  sha256: 'put the bytes back from a backup and run rowhouse fsck again, or upload the file again',
  unreadable: 'see to the store, and run rowhouse fsck again',
  record: 'upload the file again; somebody has changed svc_catalog.svc_file or svc_blob by hand',
  unowned: 'rowhouse fsck --fix leaves it to the collector',
  abandoned: 'rowhouse fsck --fix leaves it to the collector, as a running server does',
  orphan: 'rowhouse fsck --fix deletes it',
}

export const isClean = ({ findings, stores }: Report): boolean =>
  findings.every(({ fixed }) => fixed) && stores.every(({ problem }) => problem === undefined)

export function jsonOf(report: Report): string {
  const { files, blobs, stores, read, repaired, deep, fix } = report
  const findings = report.findings.map(({ file, ...finding }) => ({
    ...finding,
    ...(file === undefined ? {} : { file_id: file }),
    ...(finding.fixed ? {} : { advice: ADVICE[finding.kind] }),
  }))
  return JSON.stringify({ clean: isClean(report), deep, fix, files, blobs, stores, read, repaired, findings }, null, 2)
}

/** Lines: what was found, what to do, and how much was looked at. */
export function textOf(report: Report): readonly string[] {
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
    ...(repaired === 0 ? [] : [`found whole again: ${repaired}`]),
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
  const looked = `${files} files, ${blobs} blobs, ${objects} objects in the stores; read ${read.files}`
  const unlooked = stores.some(({ problem }) => problem !== undefined)
  const fixed = findings.length - remaining
  const found =
    remaining === 0
      ? unlooked
        ? 'not all could be looked at'
        : 'clean'
      : `${remaining} ${remaining === 1 ? 'finding remains' : 'findings remain'}`
  return `${looked}: ${fixed === 0 ? '' : `${fixed} fixed, `}${found}`
}
