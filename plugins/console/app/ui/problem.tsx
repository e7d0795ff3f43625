import type { ComponentChildren } from 'preact'
import { Failure } from '../api.js'
import { acting } from '../session.js'
import { explainedIn, Why } from './why.js'

/** Shows why something failed, with the place in the request, and the permission that refused it to an acting admin. */
export function Problem({ of, children }: { readonly of: unknown; readonly children?: ComponentChildren }) {
  const failure = of instanceof Failure ? of : undefined
  const explained = explainedIn(failure?.internal)
  return (
    <div class="problem" role="alert">
      <p>{of instanceof Error ? of.message : String(of)}</p>
      {failure && (
        <p class="soft">
          <code>{failure.code}</code> at <code>{failure.path}</code>
        </p>
      )}
      {explained && (
        <details>
          <summary>Why?</summary>
          <Why answer={explained} about={{ role: acting.value?.role, operation: explained.operation }} />
        </details>
      )}
      {children}
    </div>
  )
}
