/**
 * What requests leave in memory, bounded in bytes. When it is full, the owner that holds most loses a value that was not
 * used since the last such check (the clock algorithm), so that no caller can drive out what others need.
 */
export class SharedCache<T> {
  private readonly entries = new Map<string, Entry<T>>()
  /** What each owner holds, oldest first. */
  private readonly owners = new Map<string, { bytes: number; readonly keys: Set<string> }>()
  private bytes = 0

  constructor(private readonly maxBytes: number) {}

  get(key: string): T | undefined {
    const entry = this.entries.get(key)
    if (!entry) return undefined
    entry.used = true
    return entry.value
  }

  /**
   * Adds or replaces a value.
   * @param bytes estimate of its memory, without the key
   * @param owner the caller that left it, as in `Session.caller`
   */
  set(key: string, value: T, bytes: number, owner = ''): void {
    this.delete(key)
    const entry = { value, owner, bytes: bytes + 2 * key.length + OVERHEAD, used: false }
    this.entries.set(key, entry)
    const held = this.owners.get(owner) ?? { bytes: 0, keys: new Set() }
    this.owners.set(owner, held)
    held.keys.add(key)
    held.bytes += entry.bytes
    this.bytes += entry.bytes
    while (this.bytes > this.maxBytes) this.evict()
  }

  private evict(): void {
    let most = { bytes: -1, keys: new Set<string>() }
    for (const held of this.owners.values()) if (held.bytes > most.bytes) most = held
    for (const key of most.keys) {
      const entry = this.entries.get(key)!
      if (!entry.used) return this.delete(key)
      entry.used = false
      most.keys.delete(key)
      most.keys.add(key)
    }
  }

  private delete(key: string): void {
    const entry = this.entries.get(key)
    if (!entry) return
    const held = this.owners.get(entry.owner)!
    held.keys.delete(key)
    held.bytes -= entry.bytes
    if (held.keys.size === 0) this.owners.delete(entry.owner)
    this.bytes -= entry.bytes
    this.entries.delete(key)
  }
}

interface Entry<T> {
  readonly value: T
  readonly owner: string
  readonly bytes: number
  used: boolean
}

/** Memory of an entry besides its key and its value, in bytes. */
const OVERHEAD = 500

/**
 * Results compiled for one snapshot. A new snapshot starts with an empty cache, so nothing is invalidated. Concurrent
 * requests for the same key share the work.
 */
export class CompileCache<T> {
  private readonly results: SharedCache<T>
  private readonly pending = new Map<string, Promise<T>>()

  /** @param bytesOf estimates the memory of a value */
  constructor(
    private readonly bytesOf: (value: T) => number,
    maxBytes = 64 * 1024 * 1024,
  ) {
    this.results = new SharedCache(maxBytes)
  }

  get(key: string): T | undefined {
    return this.results.get(key)
  }

  /**
   * Returns the cached result, or compiles once for all concurrent callers. Failures are not cached.
   * @param caller owner of the result
   */
  async getOrCompile(key: string, compile: () => Promise<T>, caller?: string): Promise<T> {
    const pending = this.pending.get(key)
    if (pending) return pending
    const started = compile()
    this.pending.set(key, started)
    try {
      const value = await started
      this.results.set(key, value, this.bytesOf(value), caller)
      return value
    } finally {
      this.pending.delete(key)
    }
  }
}
