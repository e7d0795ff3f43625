/** A response: JSON from PostgreSQL as text or unparsed bytes, or a stream of rows. */
export type Answer = (TextAnswer | BytesAnswer | RowStream) & {
  /** HTTP status; defaults to 200. */
  readonly status?: number
  /** Version of the row, for an ETag, if the answer is one row that has one. */
  readonly version?: string
}
/** The answer to an earlier request with the same `Idempotency-Key`. */
export type KeptAnswer = TextAnswer & { readonly status: number }
export interface TextAnswer {
  readonly kind: 'text'
  readonly text: string
  /** Defaults to JSON. */
  readonly contentType?: string
}
/** Returns a value as an answer, for an operation with a result of its own. */
export const jsonAnswer = (value: unknown): TextAnswer => ({ kind: 'text', text: JSON.stringify(value) ?? 'null' })

export interface BytesAnswer {
  readonly kind: 'bytes'
  /** Body; text is in UTF-8. */
  readonly bytes: Buffer
  /** Defaults to JSON. */
  readonly contentType?: string
}
export interface RowStream {
  readonly kind: 'stream'
  readonly contentType: string
  /** Chunks of the body. Ends early only by throwing. */
  readonly chunks: AsyncIterable<Buffer>
  /** Releases the memory of a chunk that is no longer used. Optional to call. */
  readonly sent?: (chunk: Buffer) => void
  /** Total size of all chunks in bytes, if known. */
  readonly length?: number
  /**
   * Present if a stream that fails late has ended its JSON before it throws. Returns the position of the first row that
   * is missing: the key of its list, and its index. Undefined outside of lists.
   */
  readonly cutOff?: () => readonly (string | number)[] | undefined
}

export type AnswerFormat = 'json' | 'ndjson' | 'csv'
