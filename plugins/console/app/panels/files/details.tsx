import { useEffect, useRef, useState } from 'preact/hooks'
import { ask, Failure, query, send } from '../../api.js'
import { type Table, wireName } from '../../catalog.js'
import { numberOf, textOf } from '../../json.js'
import { acting, isAdmin, role } from '../../session.js'
import { timeText } from '../../time.js'
import { Problem } from '../../ui/problem.js'
import { DeleteFiles } from './delete-files.js'
import { ownerOf } from './file-list.js'
import { columnsOf, FILE_TABLE, type FileRow, nameOf, pathOf, sizeText, userHeaders, userOf } from './file-table.js'
import { Preview } from './preview.js'
import { SignedAddress } from './signed-address.js'
import { replace } from './uploads.js'

interface Props {
  readonly id: string
  /** Undefined when the role may not list files. */
  readonly table: Table | undefined
  readonly version: number
  readonly close: () => void
  readonly onDeleted: () => void
}

/** What is known of a file, its preview, and what can be done with it. */
export function Details({ id, table, version, close, onDeleted }: Props) {
  const { row, failure } = useRow(id, table, version)
  const [shows, setShows] = useState<'address' | 'delete'>()
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => heading.current?.focus(), [id])
  const may = { update: table?.actions.update ?? true, delete: table?.actions.delete ?? true }
  const isGone = row === null
  return (
    <aside class="details" aria-label="File">
      <div class="bar">
        <h2 ref={heading} tabIndex={-1}>
          <bdi>{nameOf(id)}</bdi>
        </h2>
        <button type="button" class="quiet push" onClick={close}>
          Close
        </button>
      </div>
      <div class="body">
        {failure !== undefined && <Problem of={failure} />}
        {isGone ? (
          <p class="soft">There is no such file, or this role may not see it.</p>
        ) : (
          <>
            {(row || !table) && <Preview id={id} version={row?.['etag'] ?? version} />}
            <Actions id={id} may={may} onShow={setShows} />
          </>
        )}
        <dl>
          <dt>Id</dt>
          <dd>
            <bdi>{id}</bdi> <CopyButton text={id} />
          </dd>
          {row && <Facts row={row} />}
        </dl>
        {isAdmin.value && table && <Why id={id} />}
      </div>
      {shows === 'address' && <SignedAddress id={id} close={() => setShows(undefined)} />}
      {shows === 'delete' && (
        <DeleteFiles
          ids={[id]}
          close={(deleted) => {
            setShows(undefined)
            if (deleted.length > 0) onDeleted()
          }}
        />
      )}
    </aside>
  )
}

function useRow(id: string, table: Table | undefined, version: number) {
  const [row, setRow] = useState<FileRow | null>()
  const [failure, setFailure] = useState<unknown>()
  useEffect(() => {
    if (!table) return undefined
    const reading = new AbortController()
    setFailure(undefined)
    query<readonly FileRow[]>(
      'select',
      { table: wireName(FILE_TABLE), columns: columnsOf(table), where: { file_id: id } },
      { signal: reading.signal },
    ).then(
      ([found = null]) => setRow(found),
      (error: unknown) => {
        if (!reading.signal.aborted) setFailure(error)
      },
    )
    return () => reading.abort()
  }, [id, table, version])
  return { row, failure }
}

function Actions({
  id,
  may,
  onShow,
}: {
  readonly id: string
  readonly may: { readonly update: boolean; readonly delete: boolean }
  readonly onShow: (what: 'address' | 'delete') => void
}) {
  const [failure, setFailure] = useState<unknown>()
  const input = useRef<HTMLInputElement>(null)
  return (
    <>
      <p class="row">
        <button type="button" onClick={() => void download(id).catch(setFailure)}>
          Download
        </button>
        <button type="button" onClick={() => onShow('address')}>
          Signed address …
        </button>
        {may.update && (
          <>
            <button type="button" onClick={() => input.current?.click()}>
              Replace …
            </button>
            <input
              ref={input}
              type="file"
              hidden
              aria-label="File to store in its place"
              onChange={({ currentTarget }) => {
                const file = currentTarget.files?.[0]
                if (file) replace(file, id)
                currentTarget.value = ''
              }}
            />
          </>
        )}
        {may.delete && (
          <button type="button" class="danger" onClick={() => onShow('delete')}>
            Delete …
          </button>
        )}
      </p>
      {failure !== undefined && <Problem of={failure} />}
    </>
  )
}

/** Saves a file. The browser streams it from a signed address; without these, it is read into memory. */
async function download(id: string): Promise<void> {
  const name = nameOf(id)
  const headers = userHeaders()
  const signing = ask<{ readonly url: string }>('/v1/file-url', {
    json: { file_id: id, expires_in: 60, download: name },
    headers,
  })
  const signed = await signing.catch((error: unknown) => {
    if (error instanceof Failure && error.code === 'not-found') return undefined
    throw error
  })
  const address = signed?.url ?? URL.createObjectURL(await (await send(pathOf(id), { headers })).blob())
  const link = document.createElement('a')
  link.href = address
  link.download = name
  link.click()
  if (!signed) setTimeout(() => URL.revokeObjectURL(address), 60_000)
}

function Facts({ row }: { readonly row: FileRow }) {
  const size = numberOf(row['file_size'])
  const facts: readonly (readonly [string, string])[] = [
    ['Size', size === undefined ? '' : size < 1000 ? sizeText(size) : `${sizeText(size)} (${size} bytes)`],
    ['Type', textOf(row['content_type'])],
    ['Owner', ownerOf(textOf(row['user_id']), textOf(row['user_role']))],
    ['Created', row['created_at'] === undefined ? '' : timeText(row['created_at'])],
    ['Changed', row['updated_at'] === undefined ? '' : timeText(row['updated_at'])],
    ['SHA-256', textOf(row['etag']).replaceAll('"', '')],
  ]
  return facts
    .filter(([, value]) => value !== '')
    .map(([name, value]) => [
      <dt key={name}>{name}</dt>,
      <dd key={`${name} value`} class={name === 'SHA-256' ? 'mono' : undefined}>
        {value}
      </dd>,
    ])
}

/** A link to the question of who may read the file. */
function Why({ id }: { readonly id: string }) {
  const user = acting.value ? userOf() : undefined
  const about = new URLSearchParams({
    table: 'svc_catalog.svc_file',
    operation: 'select',
    key: JSON.stringify({ file_id: id }),
    ...(acting.value ? { role: role.value } : {}),
    ...(user === undefined ? {} : { user }),
  })
  return (
    <p>
      <a href={`/console/permissions/why?${about.toString()}`}>
        {acting.value ? 'Why does this role see it?' : 'Who may read it, and why?'}
      </a>
    </p>
  )
}

function CopyButton({ text }: { readonly text: string }) {
  const [isCopied, setCopied] = useState(false)
  const copy = async () => {
    await navigator.clipboard.writeText(text)
    setCopied(true)
    setTimeout(() => setCopied(false), 2000)
  }
  return (
    <button type="button" class="quiet" onClick={() => void copy()}>
      {isCopied ? 'Copied' : 'Copy'}
    </button>
  )
}
