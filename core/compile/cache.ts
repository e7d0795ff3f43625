import type { Compiled } from './compile.js'

/**
 * What a snapshot has compiled so far, least recently used out first. It hangs on the snapshot: a new one starts empty,
 * so nothing is ever invalidated. Requests that want the same thing while it is being compiled share the work.
 */
export class CompileCache {
  private readonly entries = new Map<string, { readonly compiled: Compiled; readonly bytes: number }>()
  private readonly pending = new Map<string, Promise<Compiled>>()
  private readonly maxBytes: number
  private bytes = 0

  constructor(maxBytes = 64 * 1024 * 1024) {
    this.maxBytes = maxBytes
  }

  get(key: string): Compiled | undefined {
    const entry = this.entries.get(key)
    if (!entry) return undefined
    this.entries.delete(key)
    this.entries.set(key, entry)
    return entry.compiled
  }

  /** Compiles once, however many ask at the same time. What failed is not kept. */
  async getOrCompile(key: string, compile: () => Promise<Compiled>): Promise<Compiled> {
    const pending = this.pending.get(key)
    if (pending) return pending
    const started = compile()
    this.pending.set(key, started)
    try {
      const compiled = await started
      this.put(key, compiled)
      return compiled
    } finally {
      this.pending.delete(key)
    }
  }

  private put(key: string, compiled: Compiled): void {
    const texts = compiled.statements.reduce((sum, { text, params }) => sum + text.length + params.length * 100, 0)
    const bytes = 2 * (key.length + texts) + 500
    this.entries.set(key, { compiled, bytes })
    this.bytes += bytes
    for (const [oldest, entry] of this.entries) {
      if (this.bytes <= this.maxBytes) return
      this.entries.delete(oldest)
      this.bytes -= entry.bytes
    }
  }
}
