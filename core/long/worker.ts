import type { MessagePort } from 'node:worker_threads'
import { ServiceError } from '../errors.js'
import { decodeUtf8, type JsonLimits, parseJson } from '../json/parse.js'
import { bindRows, type RowsColumns } from '../sql/bind-rows.js'
import { receivedRows, Sender, type Sent, sent, type SentRows } from './sent.js'

/** Work for a long body: to parse it, or to bind rows of it. */
export type LongTask =
  | {
      readonly bytes: Uint8Array<ArrayBuffer>
      readonly limits: JsonLimits
      readonly rowsAt: RegExp | undefined
      /** For long lists. */
      readonly port: MessagePort
    }
  | { readonly rows: SentRows; readonly columns: RowsColumns }

export type LongAnswer =
  /** `lists`: how many were sent in pieces before. */
  | { readonly value: Sent; readonly lists: number }
  | { readonly refused: Pick<ServiceError, 'status' | 'code' | 'message' | 'path'> }

export default function work(task: LongTask): LongAnswer {
  try {
    if ('rows' in task) return { value: bindRows(receivedRows(task.rows), task.columns), lists: 0 }
    const { bytes, limits, rowsAt, port } = task
    const text = decodeUtf8(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))
    const sender = new Sender(port)
    const value = sent(parseJson(text, limits, rowsAt), sender)
    return { value, lists: sender.lists }
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    const { status, code, message, path } = error
    return { refused: { status, code, message, path } }
  }
}
