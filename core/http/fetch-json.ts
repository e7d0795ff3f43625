/** One answer of a service that the operator configured. */
export interface JsonAnswer {
  readonly status: number
  /** The parsed body; `undefined` when it is not JSON. */
  readonly json: unknown
}

/**
 * Fetches a small JSON document. A redirect is an answer like others, never followed: it could lead anywhere.
 * @param options.timeoutMs for everything, the body included
 * @param options.maxBytes  of the body; a longer one fails
 */
export async function fetchJson(
  url: URL,
  options: { method: 'GET' | 'POST'; headers: Headers; body?: string; timeoutMs: number; maxBytes: number },
): Promise<JsonAnswer> {
  const response = await fetch(url, {
    method: options.method,
    headers: options.headers,
    ...(options.body === undefined ? {} : { body: options.body }),
    redirect: 'manual',
    signal: AbortSignal.timeout(options.timeoutMs),
  })
  const text = await limitedText(response, options.maxBytes)
  return { status: response.status, json: parsed(text) }
}

async function limitedText(response: Response, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength
    if (size > maxBytes) throw new Error(`answer is longer than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
