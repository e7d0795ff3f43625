import { ServiceError } from '../errors.js'
import { decodeUtf8, type JsonLimits, parseJson } from '../json/parse.js'
import { bindRows, type RowsColumns } from '../sql/bind-rows.js'
import { receivedRows, type Sent, sent, type SentRows } from './sent.js'

/** Work for a long body: to parse it, or to bind rows of it. */
export type LongTask =
  | { readonly bytes: Uint8Array<ArrayBuffer>; readonly limits: JsonLimits; readonly rowsAt: RegExp | undefined }
  | { readonly rows: SentRows; readonly columns: RowsColumns }

export type LongAnswer =
  | { readonly value: Sent }
  | { readonly refused: Pick<ServiceError, 'status' | 'code' | 'message' | 'path'> }

export default function work(task: LongTask): LongAnswer {
  try {
    if ('rows' in task) return { value: bindRows(receivedRows(task.rows), task.columns) }
    return {
      value: sent(
        parseJson(
          decodeUtf8(Buffer.from(task.bytes.buffer, task.bytes.byteOffset, task.bytes.byteLength)),
          task.limits,
          task.rowsAt,
        ),
      ),
    }
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    const { status, code, message, path } = error
    return { refused: { status, code, message, path } }
  }
}
