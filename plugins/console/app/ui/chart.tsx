import { useMemo, useRef } from 'preact/hooks'
import { type Choice, guess, KINDS, kindsOf, MEASURES, plotOf, STEPS } from './figures.js'
import type { Flat } from './flat.js'
import { Plot, type PlotHandle } from './plot.js'
import { save } from './save.js'

/** The plot of an answer. It begins with a guess, and every part of it can be changed. */
export function Chart({
  flat,
  chosen,
  onChoose,
}: {
  readonly flat: Flat
  readonly chosen: Choice | undefined
  readonly onChoose: (choice: Choice) => void
}) {
  const guessed = useMemo(() => guess(flat), [flat])
  const kinds = useMemo(() => kindsOf(flat), [flat])
  const handle = useRef<PlotHandle>(undefined)
  const choice = chosen !== undefined && kinds.has(chosen.x) ? chosen : guessed
  const plot = useMemo(() => (choice ? plotOf(flat, choice) : undefined), [flat, choice])
  if (!choice || !plot) return <p class="empty">A plot needs a column with numbers, times or a few different texts.</p>
  const numbers = [...kinds].filter(([, kind]) => kind === 'number').map(([key]) => key)
  const change = (by: Partial<Choice>) => onChoose({ ...choice, ...by })
  const isTime = kinds.get(choice.x) === 'time'
  const isHistogram = choice.kind === 'histogram'
  return (
    <>
      <div class="bar plot-bar">
        <Pick
          label="Plot"
          value={choice.kind}
          options={KINDS}
          onPick={(kind) =>
            change(kind === 'histogram' && !numbers.includes(choice.x) ? { kind, x: numbers[0] ?? choice.x } : { kind })
          }
        />
        <Pick
          label="X"
          value={choice.x}
          options={isHistogram ? numbers : [...kinds.keys()]}
          onPick={(x) => change({ x })}
        />
        {isTime && !isHistogram && (
          <Pick label="By" value={choice.step} options={STEPS} onPick={(step) => change({ step })} />
        )}
        {!isHistogram && (
          <Pick
            label="Y"
            value={choice.y}
            options={['', ...numbers]}
            names={{ '': 'number of rows' }}
            onPick={(y) => change({ y })}
          />
        )}
        {choice.y !== '' && plot.isGrouped && (
          <Pick label="Shown" value={choice.measure} options={MEASURES} onPick={(measure) => change({ measure })} />
        )}
        <button
          type="button"
          class="push"
          onClick={() => void handle.current?.picture().then((picture) => picture && save(picture, 'plot.png'))}
        >
          Save picture
        </button>
      </div>
      {plot.note !== '' && <p class="soft note">{plot.note}</p>}
      <Plot
        label={plot.label}
        kind={plot.kind}
        x={plot.x}
        series={plot.series}
        handle={(made) => (handle.current = made)}
      />
    </>
  )
}

function Pick<K extends string>({
  label,
  value,
  options,
  names = {},
  onPick,
}: {
  readonly label: string
  readonly value: K
  readonly options: readonly K[]
  readonly names?: Readonly<Record<string, string>>
  readonly onPick: (value: K) => void
}) {
  return (
    <label class="pick">
      <span class="soft">{label}</span>{' '}
      <select aria-label={label} value={value} onChange={({ currentTarget }) => onPick(currentTarget.value as K)}>
        {options.map((option) => (
          <option key={option} value={option}>
            {names[option] ?? option}
          </option>
        ))}
      </select>
    </label>
  )
}
