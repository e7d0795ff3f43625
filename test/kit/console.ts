import { AxeBuilder } from '@axe-core/playwright'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { patience } from './patience.js'
import { ADMIN_SECRET, testServer, type TestOptions, type TestServer } from './server.js'

const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium'

/** The console of a server in a real browser, signed in as admin. */
export interface OpenConsole {
  readonly server: TestServer
  readonly page: Page
  /** What the browser reported since the start: errors, and what the page's policy refused. */
  readonly complaints: string[]
  /** Requests to any other origin. */
  readonly elsewhere: string[]
  /** Opens a panel: `data/orders` for `/console/data/orders`. */
  open(path: string): Promise<void>
  /** Opens the console in another browser context, which is not signed in. */
  stranger(options?: BrowserContextOptions): Promise<Page>
}

export type ConsoleOptions = TestOptions & {
  readonly browser?: BrowserContextOptions
  readonly signedIn?: boolean
}

/** Opens the console of a new server. Both end with the test. */
export async function openConsole(
  t: { teardown(fn: () => Promise<void>): unknown },
  { browser: contextOptions, signedIn = true, builtins, ...options }: ConsoleOptions = {},
): Promise<OpenConsole> {
  const plugin = new URL('../../plugins/console/index.js', import.meta.url)
  const server = await testServer(t, { ...options, builtins: { console: plugin, ...builtins } })
  const browser: Browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] })
  t.teardown(() => browser.close())
  const complaints: string[] = []
  const elsewhere: string[] = []
  const newPage = async (given: BrowserContextOptions = {}) => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...contextOptions, ...given })
    context.setDefaultTimeout(patience(30_000))
    const page = await context.newPage()
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
    })
    page.on('pageerror', (error) => complaints.push(String(error)))
    page.on('request', (request) => {
      const { protocol, origin } = new URL(request.url())
      if (/^https?:$/.test(protocol) && origin !== server.url) elsewhere.push(request.url())
    })
    page.on('requestfailed', (request) => {
      // What a policy refuses is reported as a request, but was not sent.
      const index = request.failure()?.errorText === 'csp' ? elsewhere.indexOf(request.url()) : -1
      if (index >= 0) elsewhere.splice(index, 1)
    })
    return page
  }
  const page = await newPage()
  const open = async (path: string) => {
    await page.goto(`${server.url}/console/${path}`)
    await page.waitForSelector('#main')
  }
  if (signedIn) {
    await page.goto(`${server.url}/console`)
    await page.getByLabel('Admin secret', { exact: true }).fill(ADMIN_SECRET)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.waitForSelector('#main')
  }
  return { server, page, complaints, elsewhere, open, stranger: newPage }
}

/** Returns the serious findings of axe about the page, one line each. */
export async function accessibility(page: Page): Promise<readonly string[]> {
  const { violations } = await new AxeBuilder({ page: page as never }).analyze()
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${id}: ${target.join(' ')} ${failureSummary}`),
    )
}

/** Returns by how many pixels the page is wider than the window. */
export const overflow = (page: Page): Promise<number> =>
  page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
