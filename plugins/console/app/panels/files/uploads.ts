import { computed, effect, signal, untracked } from '@preact/signals'
import type { DetailedError, Upload as TusUpload } from 'tus-js-client'
import { Failure, send } from '../../api.js'
import { type JsonObject, parse } from '../../json.js'
import { acting, callerHeaders, callerKey, role } from '../../session.js'
import { userHeaders, userOf } from './file-table.js'

export type UploadState = 'waiting' | 'running' | 'paused' | 'stored' | 'failed'

/** A file on its way to the server. */
export interface Upload {
  readonly key: number
  readonly id: string
  readonly size: number
  readonly sent: number
  readonly state: UploadState
  /** Why it failed. */
  readonly failure?: Error
  /** Whether it failed because there is such a file. */
  readonly exists?: boolean
}

interface Running extends Upload {
  readonly caller: string
  readonly source: File
  readonly replace: boolean
  readonly tus?: TusUpload
}

const all = signal<readonly Running[]>([])

/** The uploads of the caller since the page was opened. They go on while another panel is shown. */
export const uploads = computed<readonly Upload[]>(() => all.value.filter(({ caller }) => caller === callerKey.value))

/** Grows when files were stored and no upload runs any more. */
export const stored = signal(0)

/** Uploads at a time. */
const PARALLEL = 3

/** Uploads of another caller stop, because their requests would not be the caller's. */
effect(() => {
  const caller = callerKey.value
  untracked(() => {
    const others = all.value.filter((each) => each.caller !== caller && /running|waiting/.test(each.state))
    for (const { key } of others) pause(key)
  })
})

let keys = 0

/** Stores files in a folder. */
export function upload(files: readonly File[], folder: string): void {
  for (const file of files) add(file, `${folder}${file.name}`, false)
  next()
}

/** Stores a file under an id that has one already. */
export function replace(file: File, id: string): void {
  add(file, id, true)
  next()
}

function add(source: File, id: string, replaces: boolean): void {
  const one = { key: keys++, id, size: source.size, sent: 0, state: 'waiting', source, replace: replaces } as const
  all.value = [...all.value, { ...one, caller: callerKey.value }]
}

export function pause(key: number): void {
  void find(key)?.tus?.abort()
  change(key, { state: 'paused' })
  next()
}

/** Goes on with an upload that is paused, or has failed. */
export function resume(key: number): void {
  change(key, { state: 'waiting', failure: undefined })
  next()
}

/** Starts an upload again that has failed because the file exists. */
export function retryAsReplacement(key: number): void {
  change(key, { state: 'waiting', failure: undefined, exists: false, replace: true, tus: undefined })
  next()
}

/** Removes an upload from the list, and what the server has of it. */
export function drop(key: number): void {
  const { tus, state } = find(key) ?? {}
  if (tus && state !== 'stored') void tus.abort(true).catch(() => {})
  all.value = all.value.filter((each) => each.key !== key)
  next()
}

export function dropStored(): void {
  all.value = all.value.filter(({ state }) => state !== 'stored')
}

const find = (key: number) => all.value.find((each) => each.key === key)

function change(key: number, by: Partial<Running>): void {
  all.value = all.value.map((each) => (each.key === key ? { ...each, ...by } : each))
}

/** Starts uploads that wait. */
function next(): void {
  const own = all.value.filter(({ caller }) => caller === callerKey.value)
  const free = PARALLEL - own.filter(({ state }) => state === 'running').length
  for (const each of own.filter(({ state }) => state === 'waiting').slice(0, free)) {
    change(each.key, { state: 'running' })
    void start(each).catch((error: unknown) => fail(each.key, error as Error))
  }
}

async function start({ key, source, id, replace: replaces, tus: former }: Running): Promise<void> {
  const { Upload: Tus } = await import('tus-js-client')
  const started =
    former ??
    new Tus(source, {
      endpoint: '/v1/upload',
      retryDelays: [0, 1000, 3000, 5000, 10_000],
      removeFingerprintOnSuccess: true,
      fingerprint: () => Promise.resolve(fingerprintOf(source, id, replaces)),
      metadata: {
        file_id: id,
        content_type: source.type === '' ? 'application/octet-stream' : source.type,
        ...(replaces ? { replace: 'true' } : {}),
      },
      headers: { ...callerHeaders(acting.value), ...userHeaders() },
      onProgress: (sent) => change(key, { sent }),
      onError: (error) => fail(key, error),
      onSuccess: () => {
        change(key, { state: 'stored', sent: source.size })
        next()
        if (!uploads.value.some(({ state }) => state === 'running')) stored.value++
      },
    })
  if (!former) {
    const [previous] = await started.findPreviousUploads()
    if (previous) started.resumeFromPreviousUpload(previous)
  }
  change(key, { tus: started })
  if (find(key)?.state === 'running') started.start()
}

/** Names the caller and the file, so that a user cannot resume the upload of another user. */
const fingerprintOf = ({ size, lastModified }: File, id: string, replaces: boolean) =>
  `${callerPrefix()}${[id, size, lastModified, replaces].map(encodeURIComponent).join('/')}`

const callerPrefix = () => `${['rowhouse', role.value, userOf() ?? ''].map(encodeURIComponent).join('/')}/`

/** An upload that the browser remembers from before the page was opened. */
export interface Unfinished {
  readonly storageKey: string
  readonly id: string
  readonly size: number
  readonly url: string
  readonly replace: boolean
}

/** Returns the caller's uploads that did not end before the page was opened. Their bytes are on the server. */
export function unfinishedUploads(): readonly Unfinished[] {
  const running = new Set(all.value.map(({ tus }) => tus?.url))
  const keys = Object.keys(localStorage).filter((key) => key.startsWith(`tus::${callerPrefix()}`))
  return keys.flatMap((storageKey) => {
    const { uploadUrl: url, size, metadata } = JSON.parse(localStorage.getItem(storageKey) ?? '{}') as JsonObject
    const { file_id: id, replace: replaces } = (metadata ?? {}) as JsonObject
    return typeof url === 'string' && typeof id === 'string' && typeof size === 'number' && !running.has(url)
      ? [{ storageKey, id, size, url, replace: replaces === 'true' }]
      : []
  })
}

/** Goes on with an upload after the page was closed. The browser needs the file once more. */
export function continueUpload({ id, replace: replaces }: Unfinished, file: File): void {
  add(file, id, replaces)
  next()
}

/** Removes what the server and the browser have of an upload. */
export async function discard({ storageKey, url }: Unfinished): Promise<void> {
  const headers = { ...userHeaders(), 'Tus-Resumable': '1.0.0' }
  await send(url, { method: 'DELETE', headers }).catch((error: unknown) => {
    if (!(error instanceof Failure && [404, 410].includes(error.status))) throw error
  })
  localStorage.removeItem(storageKey)
}

function fail(key: number, error: Error | DetailedError): void {
  const failure = 'originalResponse' in error ? failureOf(error) : error
  change(key, { state: 'failed', failure, exists: failure.message.startsWith('file already exists') })
  next()
}

function failureOf({ originalResponse: response, message }: DetailedError): Error {
  if (!response) return new Error('the server does not answer')
  try {
    return new Failure(response.getStatus(), parse(response.getBody()) as JsonObject)
  } catch {
    return new Error(`the server refused it: ${message}`)
  }
}
