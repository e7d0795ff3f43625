import { useState } from 'preact/hooks'

/** Code to read and copy. */
export function Code({
  text,
  label,
  copy: title = 'Copy',
}: {
  readonly text: string
  readonly label: string
  /** What the button says. */
  readonly copy?: string
}) {
  const [isCopied, setCopied] = useState(false)
  const copy = async () => {
    await navigator.clipboard.writeText(text)
    setCopied(true)
    setTimeout(() => setCopied(false), 2000)
  }
  return (
    <div class="code">
      <pre tabIndex={0} aria-label={label}>
        {text}
      </pre>
      <button type="button" onClick={() => void copy()}>
        {isCopied ? 'Copied' : title}
      </button>
    </div>
  )
}
