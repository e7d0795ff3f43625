import { Problem } from '../../ui/problem.js'
import { UntrustedHtml } from '../../ui/untrusted.js'

export interface Rendered {
  readonly subject: string
  readonly text: string | null
  readonly html: string | null
}

interface PreviewProps {
  readonly examples: readonly (readonly [name: string, value: string])[]
  readonly setExample: (name: string, value: string) => void
  /** The latest that could be rendered. */
  readonly rendered: Rendered | undefined
  /** Whether the template has changed since, and cannot be rendered. */
  readonly isStale: boolean
  readonly failure: unknown
}

/** The example values of a template, and the mail that it becomes with them. */
export function Preview({ examples, setExample, rendered, isStale, failure }: PreviewProps) {
  return (
    <section class="preview" aria-label="Preview">
      {examples.length > 0 && (
        <fieldset class="examples">
          <legend>Example values</legend>
          {examples.map(([name, value]) => (
            <label key={name}>
              <span class="mono">{name}</span>
              <input
                value={value}
                placeholder="left out"
                onInput={({ currentTarget }) => setExample(name, currentTarget.value)}
              />
            </label>
          ))}
        </fieldset>
      )}
      {failure !== undefined && <Problem of={failure} />}
      {rendered && (
        <div class={isStale ? 'rendered stale' : 'rendered'}>
          {isStale && <p class="soft">Before the last changes:</p>}
          <h2>{rendered.subject}</h2>
          {rendered.html !== null && <UntrustedHtml html={rendered.html} title="HTML of the preview" />}
          {rendered.text !== null && (
            <pre class="source" tabIndex={0} aria-label="Text of the preview">
              {rendered.text}
            </pre>
          )}
        </div>
      )}
    </section>
  )
}
