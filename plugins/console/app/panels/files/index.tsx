import { useEffect, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { Failure, query, recovered, send } from '../../api.js'
import { readCatalog } from '../../catalog.js'
import { acting, isAdmin, role } from '../../session.js'
import { fieldsOf } from '../../ui/form.js'
import { Problem } from '../../ui/problem.js'
import { Browser } from './browser.js'
import { Details } from './details.js'
import { addressOf, FILE_TABLE, listedTable, placeOf, type Service } from './file-table.js'
import { UploadList } from './upload-list.js'

/** Files of the filestore: `/console/files?in=folder/&search=text&file=id`. */
export default function Files() {
  const { service, failure } = useService()
  const table = listedTable()
  if (failure !== undefined) return <Problem of={failure} />
  if (service === undefined) return <p class="wait">Loading …</p>
  if (!service.isLoaded && !table) return <NotLoaded />
  return table ? <Browser table={table} service={service} /> : <Unlisted />
}

/** Asks the server whether it stores files. */
function useService() {
  const [service, setService] = useState<Service>()
  const [failure, setFailure] = useState<unknown>()
  const isRecovered = recovered.value
  useEffect(() => {
    const asking = new AbortController()
    setFailure(undefined)
    send('/v1/upload', { method: 'OPTIONS', signal: asking.signal }).then(
      ({ headers }) => {
        const uploads = headers.has('Tus-Version')
        setService({ isLoaded: uploads, uploads, maxBytes: Number(headers.get('Tus-Max-Size') ?? Infinity) })
      },
      (error: unknown) => {
        if (asking.signal.aborted) return
        if (error instanceof Failure && error.status === 404) {
          setService({ isLoaded: false, uploads: false, maxBytes: 0 })
        } else setFailure(error)
      },
    )
    return () => asking.abort()
  }, [isRecovered])
  return { service, failure }
}

const NotLoaded = () => (
  <div class="body">
    <h2>Files</h2>
    <p>
      This server stores no files, because the plugin <code>filestore</code> is not loaded. Add it to{' '}
      <code>rowhouse.config.js</code> and restart the server:
    </p>
    <pre tabIndex={0}>{'plugins: { filestore: {} }'}</pre>
  </div>
)

/** For a role that may not list files. It may still read those whose ids it knows. */
function Unlisted() {
  const { query: given, route } = useLocation()
  const { file } = placeOf(given)
  const [failure, setFailure] = useState<unknown>()
  const mayTrack = isAdmin.value && !acting.value
  const track = () => query('track_table', FILE_TABLE).then(() => readCatalog(), setFailure)
  return (
    <div class="files">
      <div class="page scroll">
        <div class="body">
          <h2>Files</h2>
          <p>
            {mayTrack ? (
              <>
                The console lists files as rows of the table <code>svc_catalog.svc_file</code>, which is not tracked.
              </>
            ) : (
              <>
                The role <code>{role.value}</code> may not list files.
              </>
            )}
          </p>
          {mayTrack && (
            <p class="row">
              <button type="button" class="primary" onClick={() => void track()}>
                Track the table
              </button>
              <span class="soft">
                From then on, row permissions on this table are rules for files: a role without any has no access.
              </span>
            </p>
          )}
          {failure !== undefined && <Problem of={failure} />}
          <form class="row" onSubmit={(event) => route(addressOf({ file: fieldsOf(event)['id'] }))}>
            <label>
              Id of a file <input name="id" required autocomplete="off" spellcheck={false} defaultValue={file ?? ''} />
            </label>
            <button>Open</button>
          </form>
        </div>
        <UploadList />
      </div>
      {file !== undefined && (
        <Details
          key={file}
          id={file}
          table={undefined}
          version={0}
          close={() => route(addressOf({}))}
          onDeleted={() => route(addressOf({}))}
        />
      )}
    </div>
  )
}
