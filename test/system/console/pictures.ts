import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium, type Page } from 'playwright-core'
import { startSample } from './sample.js'

/** `npm run pictures`: takes the pictures of the READMEs from the sample shop. */
const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium'
/** All pictures are in the package that users install. */
const MAX_BYTES = 45_000
const QUALITY = 70
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
  const page = await browser.newPage({
    viewport: { width: 1280, height: 720 },
    deviceScaleFactor: 0.75,
    colorScheme: 'light',
  })
  const devtools = await page.context().newCDPSession(page)
  await page.goto(sample.link)
  await page.waitForSelector('#main')
  for (const { name, path, prepare } of PICTURES) {
    await page.goto(new URL(`/console/${path}`, sample.link).href)
    await prepare?.(page)
    await page.waitForTimeout(SETTLE_MS)
    const { data } = await devtools.send('Page.captureScreenshot', { format: 'webp', quality: QUALITY })
    const picture = Buffer.from(data, 'base64')
    await writeFile(join(folder, `${name}.webp`), picture)
    console.log(`${name}.webp: ${picture.length} bytes`)
    if (picture.length > MAX_BYTES) throw new Error(`${name}.webp is larger than ${MAX_BYTES} bytes`)
  }
  await browser.close()
} finally {
  await sample.stop()
}
