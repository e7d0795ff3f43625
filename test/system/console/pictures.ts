import { mkdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium, type Page } from 'playwright-core'
import { startSample } from './sample.js'

/** `npm run pictures`: takes the pictures of the READMEs from the sample shop. */
const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium'
const MAX_BYTES = 150_000
const SETTLE_MS = 1_500
/** Time for plots of the last minutes. */
const HISTORY_MS = 40_000
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
}).toString()

const LATE = new URLSearchParams({ where: '{"status": "late"}' }).toString()

const PICTURES: readonly Picture[] = [
  { name: 'data', path: `data/orders?${LATE}` },
  {
    name: 'ask',
    path: 'ask',
    async prepare(page) {
      await page.getByRole('button', { name: 'Plot by month' }).click()
      await page.getByRole('button', { name: 'Run', exact: true }).click()
      await page.getByRole('img', { name: /by month/ }).waitFor()
    },
  },
  { name: 'diagram', path: 'structure/diagram' },
  { name: 'permissions', path: `permissions/why?${WHY}` },
  {
    name: 'messages',
    path: 'messages',
    prepare: (page) =>
      page
        .getByText(/is late/)
        .first()
        .click(),
  },
  { name: 'health', path: 'health', prepare: (page) => page.waitForTimeout(HISTORY_MS) },
]

const sample = await startSample()
try {
  await mkdir(folder, { recursive: true })
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] })
  const page = await browser.newPage({ viewport: { width: 1280, height: 720 }, colorScheme: 'light' })
  await page.goto(sample.link)
  await page.waitForSelector('#main')
  for (const { name, path, prepare } of PICTURES) {
    await page.goto(new URL(`/console/${path}`, sample.link).href)
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
  await sample.stop()
}
