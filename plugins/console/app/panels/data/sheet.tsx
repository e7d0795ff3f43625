import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'

/** A sheet beside the rows, or over them on a small screen. Escape closes it. */
export function Sheet({
  title,
  close,
  children,
}: {
  readonly title: string
  readonly close: () => void
  readonly children: ComponentChildren
}) {
  const sheet = useRef<HTMLElement>(null)
  useEffect(() => {
    const before = document.activeElement
    sheet.current?.focus()
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus()
    }
  }, [])
  return (
    <section
      ref={sheet}
      class="sheet"
      aria-label={title}
      tabIndex={-1}
      onKeyDown={(event) => {
        if (event.key === 'Escape' && !event.defaultPrevented) close()
      }}
    >
      <header class="bar">
        <h3>{title}</h3>
        <button type="button" class="quiet push" onClick={close}>
          Close
        </button>
      </header>
      <div class="scroll body">{children}</div>
    </section>
  )
}
