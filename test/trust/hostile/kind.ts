/** A kind of hostile request. */
export interface Kind {
  readonly name: string
  readonly path: string
  /** Besides those of the caller; `NONCE` in a value is as in the body. */
  readonly headers?: Readonly<Record<string, string>>
  /** Made once; `NONCE` in it is a number that no request had before, so that nothing is known already. */
  body(): Buffer
  /** Who sends it; default: all. */
  readonly as?: readonly Who[]
  /** Nobody may ever get data for it. */
  readonly refused: boolean
  /** More than the server reads: it may close while the client still writes. */
  readonly mayCut?: boolean
}
export type Who = 'admin' | 'customer' | 'anonymous'

export const NONCE = '@N@'
export const WHO: readonly Who[] = ['admin', 'customer', 'anonymous']

export const times = (count: number, part: string | ((i: number) => string)): string =>
  typeof part === 'string' ? part.repeat(count) : Array.from({ length: count }, (_, i) => part(i)).join('')

export const nested = (count: number, open: string, inner: string, close: string): string =>
  open.repeat(count) + inner + close.repeat(count)
