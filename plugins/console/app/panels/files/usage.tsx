import { useEffect, useState } from 'preact/hooks'
import { query, recovered } from '../../api.js'
import { type Json, textOf } from '../../json.js'
import { Problem } from '../../ui/problem.js'
import { sizeText, userHeaders } from './file-table.js'

interface Owner {
  readonly user_id: Json
  readonly roles: readonly string[]
  readonly files: number
  readonly bytes: number
  readonly max_user_bytes: number | null
}
interface FileUsage {
  readonly user_id: Json
  readonly used_bytes: number | null
  readonly max_user_bytes: number | null
  readonly max_bytes: number
  /** For an admin. */
  readonly owners?: readonly Owner[]
}

/** How much of their quotas the caller and, for an admin, all owners use. */
export function Usage() {
  const [usage, setUsage] = useState<FileUsage>()
  const [failure, setFailure] = useState<unknown>()
  const isRecovered = recovered.value
  useEffect(() => {
    const reading = new AbortController()
    setFailure(undefined)
    query<FileUsage>('file_usage', {}, { headers: userHeaders(), signal: reading.signal }).then(
      setUsage,
      (error: unknown) => {
        if (!reading.signal.aborted) setFailure(error)
      },
    )
    return () => reading.abort()
  }, [isRecovered])
  if (failure !== undefined) return <Problem of={failure} />
  if (!usage) return <p class="wait">Loading …</p>
  return (
    <>
      <p>
        A file may have up to <b>{sizeText(usage.max_bytes)}</b>.
        {usage.used_bytes !== null && (
          <>
            {' '}
            The files of user {textOf(usage.user_id)} have <b>{sizeText(usage.used_bytes)}</b>
            {usage.max_user_bytes === null ? ', without a quota.' : ` of ${sizeText(usage.max_user_bytes)}.`}
          </>
        )}
      </p>
      {usage.owners?.length === 0 && <p class="soft">Nobody has stored a file yet.</p>}
      {usage.owners && usage.owners.length > 0 && <Owners of={usage.owners} />}
      <p class="soft">
        The settings <code>plugins.filestore.limits</code> give each role its limits.
      </p>
    </>
  )
}

const Owners = ({ of }: { readonly of: readonly Owner[] }) => (
  <div class="wide" tabIndex={0} role="region" aria-label="Owners">
    <table>
      <thead>
        <tr>
          <th scope="col">User</th>
          <th scope="col">Roles</th>
          <th scope="col">Files</th>
          <th scope="col">Bytes</th>
          <th scope="col">Quota</th>
        </tr>
      </thead>
      <tbody>
        {of.map(({ user_id: user, roles, files, bytes, max_user_bytes: most }) => (
          <tr key={textOf(user)}>
            <td>
              <bdi>{user === null ? 'nobody' : textOf(user)}</bdi>
            </td>
            <td>{roles.join(', ')}</td>
            <td>{files}</td>
            <td>{sizeText(bytes)}</td>
            <td>
              {most === null ? (
                <span class="soft">none</span>
              ) : (
                <>
                  <meter
                    min={0}
                    max={Math.max(most, 1)}
                    high={most * 0.9}
                    value={bytes}
                    aria-label={`Quota of ${textOf(user)}`}
                  />{' '}
                  {Math.round((bytes / Math.max(most, 1)) * 100)} % of {sizeText(most)}
                </>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  </div>
)
