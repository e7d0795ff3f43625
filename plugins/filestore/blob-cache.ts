import { createHash } from 'node:crypto'

/** Keeps the bytes of small and medium files in memory. They never become stale, because a blob never changes. */
export interface BlobCache {
  get(blob: string): Buffer | undefined
  /**
   * Adds bytes, unless there are too many.
   * @param etag of the file, which contains the SHA-256 to compare with
   * @returns false when the bytes differ from what was written
   */
  add(blob: string, bytes: Buffer, etag: string): boolean
}

const SMALL_BYTES = 65_536
/** Larger files gain little: most of their time is not spent reading the disk. */
const MEDIUM_BYTES = 2 ** 20
/** Overhead of an entry. */
const ENTRY_BYTES = 512

/** @param maxBytes memory limit, half of it for small files, so that larger ones do not evict them; 0 turns the cache off */
export function createBlobCache(maxBytes: number): BlobCache {
  const small = new LruCache(maxBytes / 2)
  const medium = new LruCache(maxBytes / 2)
  return {
    get: (blob) => small.get(blob) ?? medium.get(blob),
    add(blob, bytes, etag) {
      const cache = bytes.length > SMALL_BYTES ? medium : small
      if (bytes.length > MEDIUM_BYTES || !cache.hasRoomFor(bytes)) return true
      if (`"${createHash('sha256').update(bytes).digest('hex')}"` !== etag) return false
      cache.add(blob, bytes)
      return true
    },
  }
}

/** Evicts the least recently used entry first. */
class LruCache {
  private readonly blobs = new Map<string, Buffer>()
  private used = 0

  constructor(private readonly maxBytes: number) {}

  get(blob: string): Buffer | undefined {
    const bytes = this.blobs.get(blob)
    if (bytes === undefined) return undefined
    // A map keeps insertion order.
    this.blobs.delete(blob)
    this.blobs.set(blob, bytes)
    return bytes
  }

  hasRoomFor({ length }: Buffer): boolean {
    return length + ENTRY_BYTES <= this.maxBytes
  }

  add(blob: string, bytes: Buffer): void {
    if (!this.hasRoomFor(bytes) || this.blobs.has(blob)) return
    this.blobs.set(blob, bytes)
    this.used += bytes.length + ENTRY_BYTES
    for (const [oldest, { length }] of this.blobs) {
      if (this.used <= this.maxBytes) break
      this.blobs.delete(oldest)
      this.used -= length + ENTRY_BYTES
    }
  }
}
