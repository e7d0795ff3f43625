const SMALL = new Intl.NumberFormat('en', { maximumSignificantDigits: 2 })
const LARGE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })

/** `0.25`, `2.5`, `125`, `1,250` */
export const number = (value: number): string => (Math.abs(value) < 10 ? SMALL : LARGE).format(value)

/** @param seconds shown as `2.5 ms`, `1.2 s` or `3 min` */
export function duration(seconds: number): string {
  if (seconds < 1) return `${number(seconds * 1000)} ms`
  if (seconds < 120) return `${number(seconds)} s`
  if (seconds < 7200) return `${LARGE.format(seconds / 60)} min`
  return seconds < 48 * 3600 ? `${LARGE.format(seconds / 3600)} hours` : `${LARGE.format(seconds / 86_400)} days`
}

export function bytes(value: number): string {
  const power = Math.min(4, Math.max(0, Math.floor(Math.log10(Math.max(1, value)) / 3)))
  return `${number(value / 1000 ** power)} ${['B', 'kB', 'MB', 'GB', 'TB'][power]}`
}

export const share = (value: number): string => `${number(value * 100)}%`

/** `1 message`, `2 messages` */
export const count = (of: number, noun: string): string => `${number(of)} ${noun}${of === 1 ? '' : 's'}`
