import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { Dialog } from './dialog.js'
import { Problem } from './problem.js'

/** Asks before something is deleted, deletes it and closes, or says why that failed. */
export function Confirm({
  title,
  verb,
  run,
  close,
  children,
}: {
  readonly title: string
  /** What the button says, e.g. `Delete`. */
  readonly verb: string
  readonly run: () => Promise<unknown>
  readonly close: () => void
  readonly children: ComponentChildren
}) {
  const [failure, setFailure] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const attempt = async () => {
    setBusy(true)
    try {
      await run()
      close()
    } catch (error) {
      setFailure(error)
      setBusy(false)
    }
  }
  return (
    <Dialog title={title} close={close}>
      {children}
      {failure !== undefined && <Problem of={failure} />}
      <p class="row">
        <button type="button" class="danger" disabled={isBusy} onClick={() => void attempt()}>
          {verb}
        </button>
        <button type="button" onClick={close} autofocus>
          Cancel
        </button>
      </p>
    </Dialog>
  )
}
