import type { ByteRange } from 'rowhouse'
import { badRequest } from './errors.js'

/** Returns whether a range header is in another unit than bytes. It must be ignored (RFC 9110 section 14.2). */
export const hasOtherUnit = (header: string): boolean => /^(?!bytes\s*=)[!#$%&'*+.^_`|~0-9A-Z-]+=./i.test(header)

/**
 * Reads a range header, e.g. `bytes=0-99`, `bytes=100-`, `bytes=-5` (RFC 9110 section 14).
 * @returns undefined when the range contains no byte of a file of `size` bytes
 * @throws ServiceError 400 unless it is exactly one valid range
 */
export function readRange(header: string, size: number): ByteRange | undefined {
  const [, list] = /^\s*bytes\s*=(.*)$/i.exec(header) ?? []
  if (list === undefined) throw invalidRange()
  const ranges = list.split(',').filter((part) => part.trim() !== '')
  const [range, ...others] = ranges
  if (range === undefined || others.length > 0) {
    throw badRequest('expected one and atmost one byte range in the header')
  }
  const [, first = '', last = ''] = /^\s*(\d*)\s*-\s*(\d*)\s*$/.exec(range) ?? []
  if (first === '' && last === '') throw invalidRange()
  // A very long number becomes Infinity, which is past the end like any other.
  if (first === '') return Number(last) === 0 ? undefined : within(Math.max(0, size - Number(last)), size - 1, size)
  if (last !== '' && Number(last) < Number(first)) throw invalidRange()
  return within(Number(first), last === '' ? size - 1 : Math.min(Number(last), size - 1), size)
}

const within = (start: number, end: number, size: number): ByteRange | undefined =>
  start < size ? { start, end } : undefined

const invalidRange = () => badRequest('failed to parse range header')
