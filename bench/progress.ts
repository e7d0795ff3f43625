/** Says what runs now and how long it may take yet. */
export interface Display {
  /** A scenario begins. */
  scenario(id: string, name: string): void
  /** So many more windows are to come in this scenario. */
  expect(windows: number): void
  /** One window is over. */
  passed(): void
  show(text: string): void
  /** Leaves a free line for what comes next. */
  end(): void
}

/** Where it writes: a terminal has its one line written again and again. */
export interface Screen {
  readonly isTTY?: boolean
  readonly columns?: number
  write(text: string): unknown
}

/** @param planned how many seconds each scenario is thought to take */
export function createDisplay(screen: Screen, planned: readonly number[], now = () => performance.now()): Display {
  let began = 0
  let scenarioBegan = 0
  let index = -1
  let prefix = ''
  let title = ''
  let expected = 0
  let passed = 0
  const line = (text: string): string => {
    if (index < 0) return text
    const windows = expected === 0 ? [] : [`window ${Math.min(passed + 1, expected)} of ${expected}`]
    const share = expected === 0 ? 0 : passed / expected
    const times = { spent: (now() - began) / 1000, here: (now() - scenarioBegan) / 1000 }
    const left = `about ${inWords(secondsLeft(planned, index, share, times))} left`
    return [
      `[${index + 1} of ${planned.length}] ${title}`,
      text.startsWith(prefix) ? text.slice(prefix.length) : text,
      ...windows,
      left,
    ].join(' · ')
  }
  return {
    scenario(id, name) {
      if (index < 0) began = now()
      scenarioBegan = now()
      index++
      prefix = `${id}: `
      title = `${id} ${name}`
      expected = 0
      passed = 0
    },
    expect(windows) {
      expected += windows
    },
    passed() {
      passed++
    },
    show(text) {
      const whole = line(text)
      if (screen.isTTY === true) screen.write(`\r${whole.slice(0, (screen.columns ?? 80) - 1)}\u001B[K`)
      else screen.write(`${whole}\n`)
    },
    end() {
      if (screen.isTTY === true) screen.write('\r\u001B[K')
    },
  }
}

/**
 * What was planned for the rest, stretched as what is over was.
 * @param index  of the scenario that runs
 * @param share  how much of it is over, from 0 to 1
 * @param times  seconds since the first scenario and since this one began
 */
export function secondsLeft(
  planned: readonly number[],
  index: number,
  share: number,
  { spent, here }: { readonly spent: number; readonly here: number },
): number {
  const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0)
  const own = planned[index] ?? 0
  const over = sum(planned.slice(0, index))
  const stretch = over > 0 ? (spent - here) / over : 1
  // The start of a scenario may take longer than planned, and its windows are still to come.
  const left = share > 0.2 ? here / share - here : Math.max(own * stretch - here, own * stretch * (1 - share))
  return left + sum(planned.slice(index + 1)) * stretch
}

const inWords = (seconds: number): string =>
  seconds < 60 ? `${Math.ceil(seconds / 5) * 5} s` : `${Math.round(seconds / 60)} min`
