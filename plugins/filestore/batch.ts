/**
 * Batches items that arrive in the same turn of the event loop, so that they cost one query. An item never waits for the
 * previous batch, and its query always starts after it.
 */
export class Batch<Item, Result> {
  private next: { readonly items: Item[]; readonly results: Promise<readonly Result[]> } | undefined

  /** @param runAll returns the results in the order of the items; if it throws, all of them get the error */
  constructor(private readonly runAll: (items: readonly Item[]) => Promise<readonly Result[]>) {}

  async run(item: Item): Promise<Result> {
    const { items, results } = (this.next ??= this.begin())
    const index = items.push(item) - 1
    return (await results)[index] as Result
  }

  private begin() {
    const items: Item[] = []
    const results = new Promise<void>((resolve) => setImmediate(resolve)).then(() => {
      this.next = undefined
      return this.runAll(items)
    })
    return { items, results }
  }
}
