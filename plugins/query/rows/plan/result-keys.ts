import { unexpectedPayload } from 'rowhouse/plan'

/** The keys of a result object, each of which is checked when it is added. */
export class ResultKeys {
  private readonly seen = new Set<string>()

  /** @throws ServiceError 400 `unexpected-payload` */
  add(key: string, path: string): void {
    if (key === '') throw unexpectedPayload('an alias must not be empty', path)
    if (this.seen.has(key)) throw unexpectedPayload(`the key "${key}" appears twice`, path)
    this.seen.add(key)
  }
}
