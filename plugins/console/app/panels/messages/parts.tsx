import type { ComponentChildren } from 'preact'

/** The state of a message or a provider, with a dot in its colour. */
export const State = ({ of, children }: { readonly of: string; readonly children?: ComponentChildren }) => (
  <span class={`state ${of}`}>{children ?? of}</span>
)

export function Time({ at, withDate = false }: { readonly at: string; readonly withDate?: boolean }) {
  const date = new Date(at)
  const isToday = date.toDateString() === new Date().toDateString()
  const text = withDate
    ? date.toLocaleString()
    : isToday
      ? date.toLocaleTimeString(undefined, CLOCK)
      : date.toLocaleDateString(undefined, DAY)
  return (
    <time dateTime={at} title={date.toLocaleString()}>
      {text}
    </time>
  )
}

const CLOCK = { hour: '2-digit', minute: '2-digit', second: '2-digit' } as const
const DAY = { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' } as const

/** A list of the names that have a value. */
export function Facts({ of }: { readonly of: readonly (readonly [name: string, value: ComponentChildren])[] }) {
  const known = of.filter(([, value]) => value !== null && value !== undefined && value !== '')
  return (
    <dl class="facts">
      {known.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}
