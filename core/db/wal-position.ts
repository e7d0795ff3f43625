/** A position in the WAL, as the number of bytes before it. */
export type Position = bigint

const POSITION = /^([0-9A-F]{1,8})\/([0-9A-F]{1,8})$/i

/** Parses a position such as `0/16B3748`. @returns undefined for anything else */
export function parsePosition(text: string): Position | undefined {
  const [, high, low] = POSITION.exec(text) ?? []
  if (high === undefined || low === undefined) return undefined
  return (BigInt(`0x${high}`) << 32n) + BigInt(`0x${low}`)
}

export const formatPosition = (position: Position): string =>
  `${(position >> 32n).toString(16)}/${(position & 0xffffffffn).toString(16)}`.toUpperCase()

const PAGE = 8192n
const HEADER = 24n
const SEGMENT_HEADER = 40n

/**
 * Reads a position from PostgreSQL. The insert position of an idle server may be behind the header of a page that was not
 * written yet. A standby does not reach it, so it becomes the start of that page.
 * @param segment size of a WAL segment in bytes
 */
export function readPosition(text: string, segment: bigint): Position {
  const position = parsePosition(text) ?? 0n
  const isFirst = position % segment === SEGMENT_HEADER
  return isFirst || position % PAGE === HEADER ? position - (position % PAGE) : position
}
