/** A request as a client sent it. */
export interface Sent {
  readonly method: string
  readonly url: URL
  /** Of a POST, as JSON. */
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any
}

/** A `fetch` that records the requests. */
export function recorded(): { readonly fetch: typeof fetch; readonly sent: Sent[] } {
  const sent: Sent[] = []
  return {
    sent,
    fetch: (input, init) => {
      const request = new Request(input, init)
      const body = typeof init?.body === 'string' ? (JSON.parse(init.body) as unknown) : undefined
      sent.push({ method: request.method, url: new URL(request.url), body })
      return fetch(request)
    },
  }
}

export const methods = (sent: readonly Sent[]): readonly string[] => sent.map(({ method }) => method)

/** Whether a request has the text of a document, not only its hash. */
export const hasText = ({ url, body }: Sent): boolean =>
  typeof body?.query === 'string' || url.searchParams.has('query')

/** An answer without the names of types, which caches add to each selection. */
// oxlint-disable-next-line typescript/no-explicit-any
export const plain = (answer: unknown): any =>
  answer === undefined
    ? undefined
    : JSON.parse(JSON.stringify(answer, (key, value: unknown) => (key === '__typename' ? undefined : value)))
