/** A step of a plan of PostgreSQL, with the steps from which it gets its rows. */
interface Step {
  readonly title: string
  /** What stands behind the title: costs, rows, and times if it ran. */
  readonly figures: string
  readonly details: readonly string[]
  readonly steps: readonly Step[]
  /** Milliseconds of all its runs, with the steps below; undefined if it did not run. */
  readonly ms: number | undefined
}

interface PlanTree {
  readonly steps: readonly Step[]
  /** What holds for the whole plan, such as `Execution Time: 0.2 ms`. */
  readonly totals: readonly string[]
}

/** Reads a plan as PostgreSQL writes it, a line for each step and each detail. */
function readPlan(lines: readonly string[]): PlanTree {
  const steps: Building[] = []
  const open: Building[] = []
  const totals: string[] = []
  for (const line of lines) {
    const [, blanks = '', arrow, text = ''] = /^(\s*)(->\s+)?(.*)$/.exec(line) ?? []
    const indent = blanks.length
    const isStep = arrow !== undefined || (steps.length === 0 && indent === 0)
    while (open.length > 0 && (isStep ? indent <= open.at(-1)!.indent : indent < open.at(-1)!.indent)) open.pop()
    const around = open.at(-1)
    if (isStep) {
      const step = stepOf(text, indent)
      ;(around ? around.steps : steps).push(step)
      open.push(step)
    } else if (around && indent > 0) around.details.push(text)
    else totals.push(text)
  }
  return { steps, totals: totals.filter((text) => / Time: /.test(text)) }
}

type Building = Step & { readonly indent: number; readonly details: string[]; readonly steps: Step[] }

function stepOf(text: string, indent: number): Building {
  const [, title = text, figures = ''] = /^(.*?)\s{2}(\(.*\))$/.exec(text) ?? []
  const [, each, loops] = /actual time=[\d.]+\.\.([\d.]+) .*loops=(\d+)/.exec(figures) ?? []
  const ms = each === undefined ? undefined : Number(each) * Number(loops)
  return { title, figures, details: [], steps: [], indent, ms }
}

/** Shows the plan of a statement as a tree. The bar of a step is its share of the time. */
export function Plan({ lines }: { readonly lines: readonly string[] }) {
  const { steps, totals } = readPlan(lines)
  const most = steps[0]?.ms
  return (
    <div class="plan" role="group" aria-label="Plan">
      <ul>
        {steps.map((step, i) => (
          <PlanStep key={i} step={step} most={most} />
        ))}
      </ul>
      {totals.length > 0 && <p class="soft">{totals.join(' · ')}</p>}
    </div>
  )
}

function PlanStep({ step, most }: { readonly step: Step; readonly most: number | undefined }) {
  const { title, figures, details, steps, ms } = step
  const share = ms !== undefined && most ? Math.min(1, ms / most) : 0
  return (
    <li>
      <details open>
        <summary>
          <b>{title}</b> <span class="soft">{figuresOf(figures)}</span>
          {ms !== undefined && (
            <span class="share" aria-hidden="true">
              <span style={{ width: `${share * 100}%` }} />
            </span>
          )}
        </summary>
        {details.map((detail, i) => (
          <p key={i} class="soft mono">
            {detail}
          </p>
        ))}
        {steps.length > 0 && (
          <ul>
            {steps.map((each, i) => (
              <PlanStep key={i} step={each} most={most} />
            ))}
          </ul>
        )}
      </details>
    </li>
  )
}

/** Says the figures of a step in words: `3 rows (of 50,000 expected), 0.2 ms`. */
function figuresOf(figures: string): string {
  const [, cost, expected] = /cost=[\d.]+\.\.([\d.]+) rows=(\d+)/.exec(figures) ?? []
  const [, each, rows, loops] = /actual time=[\d.]+\.\.([\d.]+) rows=([\d.]+) loops=(\d+)/.exec(figures) ?? []
  const count = (text: string | undefined) => Number(text).toLocaleString('en')
  if (/never executed/.test(figures)) return 'did not run'
  if (rows === undefined)
    return expected === undefined ? figures : `${count(expected)} rows expected, cost ${count(cost)}`
  const runs = loops === '1' ? '' : `, ${count(loops)} times`
  return `${count(rows)} ${Number(rows) === 1 ? 'row' : 'rows'} (${count(expected)} expected), ${count(each)} ms${runs}`
}
