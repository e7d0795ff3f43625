import type { ComponentChildren } from 'preact'
import { clockText, timeText } from '../../time.js'
import { type Message, STATES } from './message.js'

/** The state of a message or a provider, with a dot in its colour. */
export const State = ({ of, children }: { readonly of: string; readonly children?: ComponentChildren }) => (
  <span class={`state ${of}`}>{children ?? of}</span>
)

export const StateOf = ({ message: { state } }: { readonly message: Message }) => (
  <State of={state}>{STATES[state]}</State>
)

export function Time({ at, withDate = false }: { readonly at: string; readonly withDate?: boolean }) {
  const isToday = new Date(at).toDateString() === new Date().toDateString()
  return (
    <time dateTime={at} title={timeText(at)}>
      {withDate || !isToday ? timeText(at) : clockText(at)}
    </time>
  )
}

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
