import type { ComponentChildren } from 'preact'
import { Dialog } from '../../ui/dialog.js'
import { fieldsOf } from '../../ui/form.js'
import { Problem } from '../../ui/problem.js'
import { Names, dependentsIn } from './confirm.js'
import { useChange } from './structure.js'

/** A dialog with the fields of one change. It closes when the change has succeeded. */
export function FormDialog({
  title,
  verb,
  change,
  close,
  children,
}: {
  readonly title: string
  /** What the button says, e.g. `Add`. */
  readonly verb: string
  readonly change: (fields: Readonly<Record<string, string>>) => Promise<unknown>
  readonly close: () => void
  readonly children: ComponentChildren
}) {
  const { run, isBusy, failure } = useChange()
  const users = dependentsIn(failure)
  const submit = async (event: SubmitEvent) => {
    const fields = fieldsOf(event)
    if (await run(() => change(fields))) close()
  }
  return (
    <Dialog title={title} close={close}>
      <form class="fields" onSubmit={(event) => void submit(event)}>
        {children}
        {users ? (
          <div class="problem" role="alert">
            <p>These use the name. Change them first:</p>
            <Names names={users} />
          </div>
        ) : (
          failure !== undefined && <Problem of={failure} />
        )}
        <p class="row">
          <button class="primary" disabled={isBusy}>
            {verb}
          </button>
        </p>
      </form>
    </Dialog>
  )
}
