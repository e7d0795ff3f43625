import type { ComponentChildren } from 'preact'
import { colourOf, type Finding } from '../lint.js'

/** Findings of the lint: what is wrong, and what to do about it. */
export function Findings({
  of,
  title,
  label = 'Findings',
}: {
  readonly of: readonly Finding[]
  /** What a finding is about, where that is not clear. */
  readonly title?: (finding: Finding) => ComponentChildren
  readonly label?: string
}) {
  if (of.length === 0) return null
  return (
    <ul class="findings" aria-label={label}>
      {of.map((finding) => (
        <li key={JSON.stringify(finding)} class={colourOf([finding])}>
          <p class="row">
            <b>{finding.level}</b> {title?.(finding)} <code class="soft">{finding.rule}</code>
          </p>
          <p>{sentence(finding.message)}</p>
          <p class="soft">
            {finding.advice}
            {finding.rule === 'unindexed-rule' && (
              <>
                {' '}
                <a href="/console/health/indexes">Look for indexes</a>
              </>
            )}
          </p>
        </li>
      ))}
    </ul>
  )
}

const sentence = (text: string) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`
