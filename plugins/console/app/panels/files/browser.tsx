import { useRef, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { recovered } from '../../api.js'
import type { Table } from '../../catalog.js'
import { isAdmin } from '../../session.js'
import { Dialog } from '../../ui/dialog.js'
import { fieldsOf } from '../../ui/form.js'
import { Check } from './check.js'
import { Details } from './details.js'
import { FileList } from './file-list.js'
import { addressOf, placeOf, type Service, sizeText } from './file-table.js'
import { UploadList } from './upload-list.js'
import { Usage } from './usage.js'
import { stored, upload } from './uploads.js'

/** Folders, files, and what is uploaded to them. Files can be dropped anywhere on it. */
export function Browser({ table, service }: { readonly table: Table; readonly service: Service }) {
  const { query, route } = useLocation()
  const place = placeOf(query)
  const { folder, file } = place
  const [deletions, setDeletions] = useState(0)
  const [isOver, setOver] = useState(false)
  const [shows, setShows] = useState<'usage' | 'check'>()
  const mayUpload = service.uploads && (table.actions.insert || table.actions.update)
  const version = deletions + stored.value + recovered.value
  const go = (to: Parameters<typeof addressOf>[0]) => route(addressOf(to))
  const onDrop = (event: DragEvent) => {
    event.preventDefault()
    setOver(false)
    const dropped = [...(event.dataTransfer?.items ?? [])].flatMap((item) =>
      item.webkitGetAsEntry()?.isDirectory ? [] : [item.getAsFile()],
    )
    upload(
      dropped.filter((each) => each !== null),
      folder,
    )
  }
  const onDragOver = (event: DragEvent) => {
    if (!event.dataTransfer?.types.includes('Files')) return
    event.preventDefault()
    setOver(true)
  }
  return (
    <div
      class={`files${isOver ? ' over' : ''}${file === undefined ? '' : ' opened'}`}
      {...(mayUpload ? { onDrop, onDragOver, onDragLeave: () => setOver(false) } : {})}
    >
      <div class="page">
        <div class="bar">
          <Crumbs folder={folder} />
          <Search key={`${folder} ${place.search}`} folder={folder} search={place.search} />
          {mayUpload && <UploadButtons folder={folder} maxBytes={service.maxBytes} />}
          <span class="row push">
            {isAdmin.value && <a href="/console/permissions?table=svc_catalog.svc_file">Who may do what</a>}
            {mayUpload && (
              <button type="button" class="quiet" onClick={() => setShows('usage')}>
                Usage
              </button>
            )}
            {isAdmin.value && (
              <button type="button" class="quiet" onClick={() => setShows('check')}>
                Check
              </button>
            )}
          </span>
        </div>
        <UploadList />
        <FileList
          key={`${folder} ${place.search}`}
          table={table}
          place={place}
          version={version}
          onDeleted={() => setDeletions(deletions + 1)}
        />
      </div>
      {shows !== undefined && (
        <Dialog title={shows === 'usage' ? 'Usage' : 'Check'} close={() => setShows(undefined)}>
          {shows === 'usage' ? <Usage /> : <Check close={() => setShows(undefined)} />}
        </Dialog>
      )}
      {file !== undefined && (
        <Details
          key={file}
          id={file}
          table={table}
          version={version}
          close={() => go({ ...place, file: undefined })}
          onDeleted={() => {
            setDeletions(deletions + 1)
            go({ ...place, file: undefined })
          }}
        />
      )}
    </div>
  )
}

/** The path to the folder: `Files / a / b`. */
function Crumbs({ folder }: { readonly folder: string }) {
  const parts = folder.split('/').slice(0, -1)
  return (
    <h2 class="crumbs">
      <nav aria-label="Folder">
        {parts.length === 0 ? 'Files' : <a href={addressOf({})}>Files</a>}
        {parts.map((part, i) => {
          const path = `${parts.slice(0, i + 1).join('/')}/`
          const name = <bdi>{part === '' ? '(no name)' : part}</bdi>
          return (
            <span key={path}>
              {' / '}
              {i === parts.length - 1 ? (
                <span aria-current="page">{name}</span>
              ) : (
                <a href={addressOf({ folder: path })}>{name}</a>
              )}
            </span>
          )
        })}
      </nav>
    </h2>
  )
}

function Search({ folder, search }: { readonly folder: string; readonly search: string }) {
  const { route } = useLocation()
  const submit = (event: SubmitEvent) => route(addressOf({ folder, search: fieldsOf(event)['search']?.trim() ?? '' }))
  return (
    <form role="search" onSubmit={submit}>
      <input
        type="search"
        name="search"
        defaultValue={search}
        aria-label={folder === '' ? 'Search files' : 'Search files in this folder'}
        placeholder={folder === '' ? 'Search files' : 'Search in this folder'}
      />
    </form>
  )
}

function UploadButtons({ folder, maxBytes }: { readonly folder: string; readonly maxBytes: number }) {
  const { route } = useLocation()
  const [isNaming, setNaming] = useState(false)
  const input = useRef<HTMLInputElement>(null)
  return (
    <>
      <button
        type="button"
        class="primary"
        title={`Files of up to ${sizeText(maxBytes)}`}
        onClick={() => input.current?.click()}
      >
        Upload …
      </button>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label="Files to upload"
        onChange={({ currentTarget }) => {
          upload([...(currentTarget.files ?? [])], folder)
          currentTarget.value = ''
        }}
      />
      <button type="button" onClick={() => setNaming(true)}>
        New folder …
      </button>
      {isNaming && (
        <Dialog title="New folder" close={() => setNaming(false)}>
          <form
            onSubmit={(event) => {
              const name = fieldsOf(event)['name']?.trim() ?? ''
              setNaming(false)
              route(addressOf({ folder: `${folder}${name}/` }))
            }}
          >
            <p class="row">
              <label>
                Name <input name="name" required maxLength={200} autocomplete="off" spellcheck={false} />
              </label>
              <button class="primary">Open</button>
            </p>
            <p class="soft">A folder exists as soon as a file is stored in it.</p>
          </form>
        </Dialog>
      )}
    </>
  )
}
