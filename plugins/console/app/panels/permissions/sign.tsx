import type { Mark } from './rules.js'

/** A circle that is full for all rows, half full for some. */
export const Sign = ({ rows }: { readonly rows: Mark['rows'] }) => (
  <svg class={`sign ${rows}`} viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
    <circle cx="8" cy="8" r="6.5" />
    {rows === 'some' && <path d="M8 1.5a6.5 6.5 0 0 0 0 13z" />}
  </svg>
)
