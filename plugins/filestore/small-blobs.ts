import { createHash } from 'node:crypto'

/** Bytes of files that are not large, as they were written: a blob never changes. */
export interface SmallBlobs {
  get(blob: string): Buffer | undefined
  /**
   * Keeps them, if they are not many.
   * @param etag of the file: its SHA-256, which they are compared with before they are kept
   * @returns false when they are not what was written
   */
  keep(blob: string, bytes: Buffer, etag: string): boolean
}

/** Reading more from the disk is not what takes the time. */
const SMALL_BYTES = 65_536
const MEDIUM_BYTES = 2 ** 20
/** What a blob costs beside its bytes. */
const BLOB_BYTES = 512

/** @param mostBytes of memory, half of it for the smallest files, so that others do not drive them out; 0: nothing is kept */
export function createSmallBlobs(mostBytes: number): SmallBlobs {
  const small = new Kept(mostBytes / 2)
  const medium = new Kept(mostBytes / 2)
  return {
    get: (blob) => small.get(blob) ?? medium.get(blob),
    keep(blob, bytes, etag) {
      const kept = bytes.length > SMALL_BYTES ? medium : small
      if (bytes.length > MEDIUM_BYTES || !kept.hasRoomFor(bytes)) return true
      if (`"${createHash('sha256').update(bytes).digest('hex')}"` !== etag) return false
      kept.add(blob, bytes)
      return true
    },
  }
}

/** What was not asked for the longest goes first. */
class Kept {
  private readonly blobs = new Map<string, Buffer>()
  private readonly mostBytes: number
  private used = 0

  constructor(mostBytes: number) {
    this.mostBytes = mostBytes
  }

  get(blob: string): Buffer | undefined {
    const bytes = this.blobs.get(blob)
    if (bytes === undefined) return undefined
    // A map keeps the order in which keys came.
    this.blobs.delete(blob)
    this.blobs.set(blob, bytes)
    return bytes
  }

  hasRoomFor({ length }: Buffer): boolean {
    return length + BLOB_BYTES <= this.mostBytes
  }

  add(blob: string, bytes: Buffer): void {
    if (!this.hasRoomFor(bytes) || this.blobs.has(blob)) return
    this.blobs.set(blob, bytes)
    this.used += bytes.length + BLOB_BYTES
    for (const [oldest, { length }] of this.blobs) {
      if (this.used <= this.mostBytes) break
      this.blobs.delete(oldest)
      this.used -= length + BLOB_BYTES
    }
  }
}
