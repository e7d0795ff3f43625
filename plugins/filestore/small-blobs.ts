import { createHash } from 'node:crypto'

/** Bytes of small files, as they were written: a blob never changes. What was not asked for the longest goes first. */
export interface SmallBlobs {
  get(blob: string): Buffer | undefined
  /** Keeps them, if they are small. @param etag of the file: its SHA-256. @returns false when they are not what was written */
  keep(blob: string, bytes: Buffer, etag: string): boolean
}

/** Reading more from the disk is not what takes the time. */
const SMALL_BYTES = 65_536
/** What a blob costs beside its bytes. */
const BLOB_BYTES = 512

/** @param mostBytes of memory; 0: nothing is kept */
export function createSmallBlobs(mostBytes: number): SmallBlobs {
  const blobs = new Map<string, Buffer>()
  let used = 0
  return {
    get(blob) {
      const bytes = blobs.get(blob)
      if (bytes === undefined) return undefined
      // A map keeps the order in which keys came.
      blobs.delete(blob)
      blobs.set(blob, bytes)
      return bytes
    },
    keep(blob, bytes, etag) {
      const cost = bytes.length + BLOB_BYTES
      if (bytes.length > SMALL_BYTES || cost > mostBytes) return true
      if (`"${createHash('sha256').update(bytes).digest('hex')}"` !== etag) return false
      if (blobs.has(blob)) return true
      blobs.set(blob, bytes)
      used += cost
      for (const [oldest, { length }] of blobs) {
        if (used <= mostBytes) break
        blobs.delete(oldest)
        used -= length + BLOB_BYTES
      }
      return true
    },
  }
}
