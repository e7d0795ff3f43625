const EVERY_MS = 5000

/** Says how far long work is, now and then. */
export class Progress {
  private readonly write: (text: string) => void
  private last = performance.now()

  constructor(write: (text: string) => void) {
    this.write = write
  }

  tell(text: () => string): void {
    const now = performance.now()
    if (now - this.last < EVERY_MS) return
    this.last = now
    this.write(text())
  }
}
