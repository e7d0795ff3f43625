import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A hook of the filestore: it sends the responses that a test sets, and records the requests. */
export interface FileHook {
  /** With a parameter of its own, `key=k`. */
  readonly url: string
  readonly asked: { readonly method: string; readonly url: URL; readonly headers: IncomingHttpHeaders }[]
  answers(next: HookAnswer): void
}

/** `hang`: no answer; `cut`: the connection ends; `upgrade`: the answer of another protocol. */
type HookAnswer =
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body?: string }
  | 'hang'
  | 'cut'
  | 'upgrade'

/** Starts a hook that allows everything. */
export async function fileHook(t: { teardown(fn: () => void): unknown }): Promise<FileHook> {
  const asked: { method: string; url: URL; headers: IncomingHttpHeaders }[] = []
  let answer: HookAnswer = { status: 200 }
  const listening = createServer((req, res) => {
    asked.push({ method: req.method ?? '', url: new URL(req.url ?? '', 'http://hook'), headers: req.headers })
    if (answer === 'cut') return req.socket.destroy()
    if (answer === 'upgrade') return req.socket.end('HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n')
    if (answer !== 'hang') res.writeHead(answer.status, answer.headers).end(answer.body)
  })
  await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    listening.closeAllConnections()
    listening.close()
  })
  return {
    asked,
    url: `http://127.0.0.1:${(listening.address() as AddressInfo).port}/may?key=k`,
    answers(next) {
      answer = next
    },
  }
}
