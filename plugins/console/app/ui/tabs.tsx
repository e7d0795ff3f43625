import type { ComponentChildren } from 'preact'

export interface Tab<K extends string> {
  readonly key: K
  readonly title: ComponentChildren
}

/** Tabs, of which one is chosen. Arrow keys move between them. The panel below is the caller's. */
export function Tabs<K extends string>({
  label,
  tabs,
  chosen,
  onChoose,
}: {
  readonly label: string
  readonly tabs: readonly Tab<K>[]
  readonly chosen: K
  readonly onChoose: (key: K) => void
}) {
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key]
    if (step === undefined) return
    const index = (tabs.findIndex(({ key }) => key === chosen) + step + tabs.length) % tabs.length
    onChoose(tabs[index]!.key)
    const buttons = (event.currentTarget as HTMLElement).querySelectorAll('button')
    buttons[index]?.focus()
  }
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={onKeyDown}>
      {tabs.map(({ key, title }) => (
        <button
          key={key}
          type="button"
          role="tab"
          aria-selected={key === chosen}
          tabIndex={key === chosen ? 0 : -1}
          onClick={() => onChoose(key)}
        >
          {title}
        </button>
      ))}
    </div>
  )
}
