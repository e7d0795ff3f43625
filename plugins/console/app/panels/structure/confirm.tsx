import type { ComponentChildren } from 'preact'
import { Failure } from '../../api.js'
import { Dialog } from '../../ui/dialog.js'
import { Problem } from '../../ui/problem.js'
import { useChange } from './structure.js'

/** Asks before something is dropped. If other things depend on it, it lists them and asks again. */
export function ConfirmDrop({
  title,
  verb,
  drop,
  close,
  done,
  children,
}: {
  readonly title: string
  /** e.g. `Untrack` */
  readonly verb: string
  /** Fails with `dependency-error` unless it may drop the dependents too. */
  readonly drop: (cascade: boolean) => Promise<unknown>
  readonly close: () => void
  /** Called instead of `close` after it was dropped. */
  readonly done?: () => void
  readonly children?: ComponentChildren
}) {
  const { run, isBusy, failure } = useChange()
  const dependents = dependentsIn(failure)
  const attempt = async (cascade: boolean) => {
    if (await run(() => drop(cascade))) (done ?? close)()
  }
  return (
    <Dialog title={title} close={close}>
      {children}
      {dependents ? (
        <>
          <p role="alert">These depend on it, and would be dropped too:</p>
          <Names names={dependents} />
        </>
      ) : (
        failure !== undefined && <Problem of={failure} />
      )}
      <p class="row">
        <button type="button" class="danger" disabled={isBusy} onClick={() => void attempt(dependents !== undefined)}>
          {dependents ? `${verb}, and drop these too` : verb}
        </button>
        <button type="button" onClick={close}>
          Cancel
        </button>
      </p>
    </Dialog>
  )
}

export const Names = ({ names }: { readonly names: readonly string[] }) => (
  <ul class="names">
    {names.map((name) => (
      <li key={name}>
        <code>{name}</code>
      </li>
    ))}
  </ul>
)

/** Returns the objects that a refused change would drop; undefined for other failures. */
export function dependentsIn(failure: unknown): readonly string[] | undefined {
  if (!(failure instanceof Failure) || failure.code !== 'dependency-error') return undefined
  return /dependent objects: (.*)$/s.exec(failure.message)?.[1]?.split(', ')
}
