/**
 * What a snapshot has compiled so far. Out first is what was not used since it was last looked at (the clock algorithm). It
 * hangs on the snapshot: a new one starts empty, so nothing is ever invalidated. Requests that want the same thing while it
 * is being compiled share the work.
 */
export class CompileCache<T> {
  private readonly entries = new Map<string, Entry<T>>()
  private readonly pending = new Map<string, Promise<T>>()
  private readonly maxBytes: number
  private readonly bytesOf: (value: T) => number
  private bytes = 0

  /** @param bytesOf about how much memory a value takes */
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

  /** Compiles once, however many ask at the same time. What failed is not kept. `compile` is not called for who waits. */
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
