import { useEffect, useState } from 'preact/hooks'
import { useRoute } from 'preact-iso'
import { recovered } from '../../api.js'
import { useLint } from '../../lint.js'
import { Problem } from '../../ui/problem.js'
import { FindingsPage } from './findings-page.js'
import { Matrix } from './matrix.js'
import { RulePage } from './rule-page.js'
import { readRules, rules } from './rules.js'
import { WhyPage } from './why-page.js'

/** Who may do what, and why: `/console/permissions`, `.../rule?table=...`, `.../why?table=...`, `.../findings`. */
export default function Permissions() {
  const { rest = '' } = useRoute() as { readonly rest?: string }
  const [failure, setFailure] = useState<unknown>()
  const isRecovered = recovered.value
  useEffect(() => {
    const reading = new AbortController()
    setFailure(undefined)
    readRules(reading.signal).catch((error: unknown) => {
      if (!reading.signal.aborted) setFailure(error)
    })
    return () => reading.abort()
  }, [isRecovered])
  useLint(rules.value)
  if (failure !== undefined) {
    return (
      <div class="body">
        <Problem of={failure} />
      </div>
    )
  }
  if (!rules.value) return <p class="wait">Loading …</p>
  switch (rest.replace(/^\//, '')) {
    case 'rule':
      return <RulePage rules={rules.value} />
    case 'why':
      return <WhyPage rules={rules.value} />
    case 'findings':
      return <FindingsPage rules={rules.value} />
    default:
      return <Matrix rules={rules.value} />
  }
}
