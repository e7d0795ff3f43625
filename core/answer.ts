/** JSON as PostgreSQL made it, as text or as bytes that nobody has looked at, or what is still coming. */
export type Answer = (TextAnswer | BytesAnswer | RowStream) & {
  /** Of HTTP; 200 when absent. */
  readonly status?: number
}
export interface TextAnswer {
  readonly kind: 'text'
  readonly text: string
  /** JSON when absent. */
  readonly contentType?: string
}
export interface BytesAnswer {
  readonly kind: 'bytes'
  /** In UTF-8 where they are text. */
  readonly bytes: Buffer
  /** JSON when absent. */
  readonly contentType?: string
}
export interface RowStream {
  readonly kind: 'stream'
  readonly contentType: string
  /** Chunks of the body. Ends early only by throwing. */
  readonly chunks: AsyncIterable<Buffer>
  /** Is told of a chunk that nobody looks at any more: its memory is used again. Need not be called. */
  readonly sent?: (chunk: Buffer) => void
  /** Of all chunks together, in bytes, where it is known. */
  readonly length?: number
}

export type AnswerFormat = 'json' | 'ndjson' | 'csv'
