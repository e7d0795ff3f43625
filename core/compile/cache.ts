/**
 * Results compiled for one snapshot. Evicts entries that were not used since the last check (the clock algorithm). A
 * new snapshot starts with an empty cache, so nothing is invalidated. Concurrent requests for the same key share the
 * work.
 */
export class CompileCache<T> {
  private readonly entries = new Map<string, Entry<T>>()
  private readonly pending = new Map<string, Promise<T>>()
  private readonly maxBytes: number
  private readonly bytesOf: (value: T) => number
  private bytes = 0

  /** @param bytesOf estimates the memory of a value */
  constructor(bytesOf: (value: T) => number, maxBytes = 64 * 1024 * 1024) {
    this.bytesOf = bytesOf
    this.maxBytes = maxBytes
  }

  get(key: string): T | undefined {
    const entry = this.entries.get(key)
    if (!entry) return undefined
    entry.used = true
    return entry.value
  }

  /** Returns the cached result, or compiles once for all concurrent callers. Failures are not cached. */
  async getOrCompile(key: string, compile: () => Promise<T>): Promise<T> {
    const pending = this.pending.get(key)
    if (pending) return pending
    const started = compile()
    this.pending.set(key, started)
    try {
      const value = await started
      this.put(key, value)
      return value
    } finally {
      this.pending.delete(key)
    }
  }

  private put(key: string, value: T): void {
    const bytes = 2 * key.length + this.bytesOf(value) + 500
    this.entries.set(key, { value, bytes, used: false })
    this.bytes += bytes
    for (const [oldest, entry] of this.entries) {
      if (this.bytes <= this.maxBytes) return
      this.entries.delete(oldest)
      if (entry.used) {
        entry.used = false
        this.entries.set(oldest, entry)
      } else this.bytes -= entry.bytes
    }
  }
}

interface Entry<T> {
  readonly value: T
  readonly bytes: number
  used: boolean
}
