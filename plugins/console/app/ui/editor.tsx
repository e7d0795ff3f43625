import { lazy, Suspense } from 'preact/compat'
import type { EditorProps } from './codemirror.js'

export type { Completing, EditorProps, Place } from './codemirror.js'

const CodeMirror = lazy(() => import('./codemirror.js'))

/** A text editor with completion, and with errors at their place. It is loaded when the first one is shown. */
export function Editor(props: EditorProps) {
  return (
    <Suspense fallback={<p class="wait">Loading …</p>}>
      <CodeMirror {...props} />
    </Suspense>
  )
}
