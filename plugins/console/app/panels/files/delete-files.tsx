import { useRef, useState } from 'preact/hooks'
import { ask } from '../../api.js'
import { Dialog } from '../../ui/dialog.js'
import { pathOf, userHeaders } from './file-table.js'

const PARALLEL = 4
const SHOWN = 10

/** Asks before files are deleted, deletes them, and says which could not be deleted. */
export function DeleteFiles({
  ids,
  close,
}: {
  readonly ids: readonly string[]
  /** @param deleted ids of the files that are gone */
  readonly close: (deleted: readonly string[]) => void
}) {
  const [deleted, setDeleted] = useState<readonly string[]>([])
  const [failed, setFailed] = useState<readonly string[]>([])
  const [isRunning, setRunning] = useState(false)
  const stop = useRef(new AbortController())
  const title = ids.length === 1 ? 'Delete this file?' : `Delete ${ids.length} files?`
  const run = async () => {
    setRunning(true)
    const { gone, problems } = await deleteAll(ids, stop.current.signal, setDeleted)
    if (problems.length === 0) close(gone)
    else setFailed(problems)
    setRunning(false)
  }
  const isOver = failed.length > 0
  return (
    <Dialog
      title={isOver ? 'Some files were not deleted' : title}
      close={() => {
        stop.current.abort()
        close(deleted)
      }}
    >
      <ul class="names">
        {(isOver ? failed : ids).slice(0, SHOWN).map((each) => (
          <li key={each}>
            <bdi>{each}</bdi>
          </li>
        ))}
      </ul>
      {(isOver ? failed : ids).length > SHOWN && <p class="soft">and {(isOver ? failed : ids).length - SHOWN} more</p>}
      {!isOver && <p>Deleted files cannot be restored here.</p>}
      {isRunning && <progress max={ids.length} value={deleted.length} aria-label="Deleted files" />}
      {!isOver && (
        <p class="row">
          <button type="button" class="danger" disabled={isRunning} onClick={() => void run()}>
            {isRunning ? `Deleted ${deleted.length} of ${ids.length}` : 'Delete'}
          </button>
        </p>
      )}
    </Dialog>
  )
}

async function deleteAll(
  ids: readonly string[],
  signal: AbortSignal,
  onDeleted: (gone: readonly string[]) => void,
): Promise<{ readonly gone: readonly string[]; readonly problems: readonly string[] }> {
  const gone: string[] = []
  const problems: string[] = []
  const queue = ids.values()
  const work = async () => {
    for (const id of queue) {
      if (signal.aborted) return
      try {
        await ask(pathOf(id), { method: 'DELETE', headers: userHeaders() })
        gone.push(id)
        onDeleted([...gone])
      } catch (error) {
        problems.push(`${id}: ${(error as Error).message}`)
      }
    }
  }
  await Promise.all(Array.from({ length: PARALLEL }, work))
  return { gone, problems }
}
