import type { ComponentChildren } from 'preact'
import { Failure } from '../api.js'

/** Shows why something failed, with the place in the request. */
export function Problem({ of, children }: { readonly of: unknown; readonly children?: ComponentChildren }) {
  const failure = of instanceof Failure ? of : undefined
  return (
    <div class="problem" role="alert">
      <p>{of instanceof Error ? of.message : String(of)}</p>
      {failure && (
        <p class="soft">
          <code>{failure.code}</code> at <code>{failure.path}</code>
        </p>
      )}
      {children}
    </div>
  )
}
