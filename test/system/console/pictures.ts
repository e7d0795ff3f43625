import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { chromium, type Page } from 'playwright-core'

/** `npm run pictures`: takes the pictures of the READMEs from the sample shop. */
const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium'
const MAX_BYTES = 150_000
const SETTLE_MS = 1_500
const root = fileURLToPath(new URL('../../../../', import.meta.url))
const folder = join(root, 'plugins/console/pictures')

interface Picture {
  /** Name of the file without its extension. */
  readonly name: string
  /** What follows `/console/`. */
  readonly path: string
  readonly prepare?: (page: Page) => Promise<void>
}

const WHY = new URLSearchParams({
  role: 'customer',
  user: '157',
  table: 'orders',
  operation: 'select',
  key: '{"id": 46455}',
})

const PICTURES: readonly Picture[] = [
  { name: 'data', path: 'data/orders' },
  { name: 'ask', path: 'ask' },
  { name: 'diagram', path: 'structure/diagram' },
  { name: 'permissions', path: `permissions/why?${WHY.toString()}` },
  { name: 'messages', path: 'messages' },
  { name: 'health', path: 'health' },
]

const cwd = await mkdtemp(join(tmpdir(), 'rowhouse-pictures-'))
const server = spawn(process.execPath, [join(root, 'build/core/cli.js'), 'dev', '--port', '0'], { cwd })
server.stderr.pipe(process.stderr)
try {
  const link = await signInLink()
  await mkdir(folder, { recursive: true })
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] })
  const page = await browser.newPage({ viewport: { width: 1280, height: 760 }, colorScheme: 'light' })
  await page.goto(link)
  await page.waitForSelector('#main')
  for (const { name, path, prepare } of PICTURES) {
    await page.goto(new URL(`/console/${path}`, link).href)
    await prepare?.(page)
    await page.waitForTimeout(SETTLE_MS)
    const file = join(folder, `${name}.png`)
    await page.screenshot({ path: file })
    const { size } = await stat(file)
    console.log(`${name}.png: ${size} bytes`)
    if (size > MAX_BYTES) throw new Error(`${name}.png is larger than ${MAX_BYTES} bytes`)
  }
  await browser.close()
} finally {
  server.kill()
  await once(server, 'exit')
  await rm(cwd, { recursive: true, force: true })
}

/** Returns the link that the server prints. */
async function signInLink(): Promise<string> {
  for await (const line of createInterface(server.stdout)) {
    const link = /https?:\S+#code=\S+/.exec(line)?.[0]
    if (link !== undefined) return link
  }
  throw new Error('the server printed no sign-in link')
}
