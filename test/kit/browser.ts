import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { patience } from './patience.js'
import { until } from './until.js'

const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium'
const PATIENCE_MS = patience(60_000)

/** A tab of a real Chromium. */
export interface Tab {
  open(url: string): Promise<void>
  /** The value of a JavaScript expression, as JSON; promises are waited for. */
  // oxlint-disable-next-line typescript/no-explicit-any
  evaluate(expression: string): Promise<any>
  /** Waits until an expression is true. */
  until(expression: string): Promise<void>
  /** A click of the mouse, in pixels from the top left corner of what is seen. */
  click(x: number, y: number): Promise<void>
  /** A key, e.g. `Tab`, `Enter`, `ArrowDown`. */
  press(key: string): Promise<void>
  type(text: string): Promise<void>
  look(look: { readonly width?: number; readonly height?: number; readonly dark?: boolean }): Promise<void>
  screenshot(file: string): Promise<void>
  /** What the console said since the start: errors, and what the page's policy refused. */
  readonly complaints: readonly string[]
}

/**
 * Starts a browser of its own; it ends with the test.
 * @param elsewhere port on this machine that gets every request for another host than 127.0.0.1
 */
export async function openTab(
  t: { teardown(fn: () => Promise<void>): unknown },
  { elsewhere }: { readonly elsewhere?: number } = {},
): Promise<Tab> {
  const profile = await mkdtemp(join(tmpdir(), 'rowhouse-browser-'))
  const target = elsewhere === undefined ? '~NOTFOUND' : `127.0.0.1:${elsewhere}`
  const options = [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-component-update',
    '--disable-background-networking',
    '--no-first-run',
    '--remote-debugging-pipe',
    `--user-data-dir=${profile}`,
    `--host-resolver-rules=MAP * ${target}, EXCLUDE 127.0.0.1`,
  ]
  const child = spawn(CHROMIUM, [...options, 'about:blank'], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
    detached: true,
  })
  t.teardown(async () => {
    const gone = once(child, 'close')
    process.kill(-child.pid!, 'SIGKILL')
    await gone
    await rm(profile, { recursive: true, force: true, maxRetries: 5 })
  })
  const { send, onEvent } = protocol(child.stdio[3] as Writable, child.stdio[4] as unknown as Readable)
  const { targetInfos } = await send('Target.getTargets')
  const { targetId } = (targetInfos as { type: string; targetId: string }[]).find(({ type }) => type === 'page')!
  const { sessionId } = await send('Target.attachToTarget', { targetId, flatten: true })
  const ask = (method: string, params: object = {}) => send(method, params, sessionId as string)

  const complaints: string[] = []
  onEvent((method, params) => {
    if (method === 'Log.entryAdded') complaints.push(String(params['entry'].text))
    if (method === 'Runtime.exceptionThrown') complaints.push(JSON.stringify(params['exceptionDetails']))
  })
  for (const domain of ['Page', 'Runtime', 'Log']) await ask(`${domain}.enable`)

  const evaluate: Tab['evaluate'] = async (expression) => {
    const { result, exceptionDetails: thrown } = await ask('Runtime.evaluate', {
      expression,
      awaitPromise: true,
      returnByValue: true,
    })
    if (thrown) throw new Error(`${expression}: ${JSON.stringify(thrown)}`)
    return result.value
  }
  const key = (type: string, name: string) =>
    ask('Input.dispatchKeyEvent', {
      type,
      key: name,
      code: name,
      windowsVirtualKeyCode: KEYS[name],
      ...(name === 'Enter' ? { text: '\r' } : {}),
    })
  return {
    complaints,
    evaluate,
    async open(url) {
      await ask('Page.navigate', { url })
      await until(`${url} is loaded`, () =>
        evaluate(`document.readyState === 'complete' && location.href !== 'about:blank'`),
      )
    },
    until: (expression) => until(expression, () => evaluate(`Boolean(${expression})`)),
    async click(x, y) {
      for (const type of ['mousePressed', 'mouseReleased']) {
        await ask('Input.dispatchMouseEvent', { type, x, y, button: 'left', clickCount: 1 })
      }
    },
    async press(name) {
      await key('keyDown', name)
      await key('keyUp', name)
    },
    type: async (text) => void (await ask('Input.insertText', { text })),
    async look({ width = 1280, height = 860, dark = false }) {
      const value = dark ? 'dark' : 'light'
      await ask('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false })
      await ask('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value }] })
    },
    async screenshot(file) {
      const { data } = await ask('Page.captureScreenshot', { format: 'png' })
      await writeFile(file, Buffer.from(data as string, 'base64'))
    },
  }
}

const KEYS: Readonly<Record<string, number>> = { Tab: 9, Enter: 13, Escape: 27, ArrowUp: 38, ArrowDown: 40 }

// oxlint-disable-next-line typescript/no-explicit-any
type Fields = Record<string, any>

/** The DevTools protocol over two pipes: JSON messages, each ended by a zero byte. */
function protocol(input: Writable, output: Readable) {
  const waiting = new Map<number, { resolve(result: Fields): void; reject(error: Error): void }>()
  const listeners: ((method: string, params: Fields) => void)[] = []
  let last = 0
  void (async () => {
    let rest = ''
    for await (const chunk of output.setEncoding('utf8')) {
      const messages = (rest + String(chunk)).split('\0')
      rest = messages.pop()!
      for (const message of messages) take(JSON.parse(message) as Fields)
    }
  })()
  function take({ id, method, params, result, error }: Fields): void {
    if (id === undefined) for (const listener of listeners) listener(method as string, params as Fields)
    else if (error) waiting.get(id as number)?.reject(new Error(JSON.stringify(error)))
    else waiting.get(id as number)?.resolve(result as Fields)
    waiting.delete(id as number)
  }
  input.on('error', () => {})
  const send = (method: string, params: object = {}, sessionId?: string): Promise<Fields> =>
    new Promise((resolve, reject) => {
      const id = ++last
      const timer = setTimeout(() => reject(new Error(`no answer to ${method}`)), PATIENCE_MS)
      const done =
        <T>(then: (value: T) => void) =>
        (value: T) => {
          clearTimeout(timer)
          then(value)
        }
      waiting.set(id, { resolve: done(resolve), reject: done(reject) })
      input.write(`${JSON.stringify({ id, method, params, sessionId })}\0`)
    })
  return { send, onEvent: (listener: (method: string, params: Fields) => void) => void listeners.push(listener) }
}
