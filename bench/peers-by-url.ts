import { setTimeout as sleep } from 'node:timers/promises'
import { check } from './check.js'
import type { Size } from './data.js'
import { withClient } from './database.js'
import { answerThrough, type Door } from './load-rounds.js'
import { byPk } from './scenarios/by-pk.js'
import { filter } from './scenarios/filter.js'
import { list } from './scenarios/list.js'
import { nested } from './scenarios/nested.js'
import type { LoadScenario } from './scenarios/scenario.js'
import type { Endpoint } from './systems/child.js'
import { type Product, type ProductName, PRODUCTS } from './systems/product.js'

/** What `--peer` says: `hasura=http://127.0.0.1:8080`. */
export interface PeerUrl {
  readonly product: ProductName
  readonly url: URL
}

export interface PeersByUrl {
  readonly peers: readonly PeerByUrl[]
  /** Which are not there, and what would change that. */
  readonly notMeasured: readonly string[]
}

export interface PeerByUrl {
  /** One way to ask it. */
  door(scenario: LoadScenario, size: Size): Door
}

/** Where the data is, and how long to wait for somebody to start servers on it. */
export interface Waiting {
  readonly databaseUrl: string
  readonly size: Size
  readonly env: Readonly<Record<string, string | undefined>>
  readonly waitMs: number
  progress(text: string): void
}

const POLL_MS = 1_000
const ANSWER_MS = 10_000
const READS: readonly LoadScenario[] = [byPk, list, nested, filter]

/**
 * Reads a value of `--peer`.
 * @throws Error that says what is wrong with it
 */
export function readPeerUrl(text: string): PeerUrl {
  const at = text.indexOf('=')
  const product = text.slice(0, Math.max(at, 0))
  if (!isProduct(product))
    throw new Error(`--peer should begin with ${Object.keys(PRODUCTS).join('=, ')}= and not be "${text}"`)
  const given = text.slice(at + 1)
  const url = URL.canParse(given) ? new URL(given) : undefined
  if (url?.protocol === 'http:' && url.href === `${url.origin}/`) return { product, url }
  throw new Error(`--peer ${product} should be http://HOST:PORT, not "${given}"`)
}

const isProduct = (name: string): name is ProductName => Object.hasOwn(PRODUCTS, name)

/** Waits until each answers all reads with the rows of the bench. One that does not is not measured. */
export async function reachPeers(wanted: readonly PeerUrl[], waiting: Waiting): Promise<PeersByUrl> {
  const peers: PeerByUrl[] = []
  const notMeasured: string[] = []
  for (const [name, { title }] of Object.entries(PRODUCTS))
    if (!wanted.some(({ product }) => product === name)) notMeasured.push(`${title} (no package; --peer ${name}=URL)`)
  for (const { product: name, url } of wanted) {
    const product = PRODUCTS[name]
    const system = `${product.title} at ${url.host}`
    const missing = product.needs.filter((variable) => !waiting.env[variable])
    if (missing.length > 0) {
      notMeasured.push(`${system}, which needs ${missing.join(' and ')} in the environment`)
      continue
    }
    const door = await doorOf(product, url, waiting.env)
    const reason = await untilReady(system, (scenario) => door(system, scenario, waiting.size), waiting)
    if (reason === undefined) {
      const version = await versionOf(product, url)
      peers.push({ door: (scenario, size) => door([product.title, version, 'at', url.host].join(' '), scenario, size) })
    } else notMeasured.push(`${system}, which did not answer as it should within ${waiting.waitMs / 1000} s: ${reason}`)
  }
  return { peers, notMeasured }
}

async function doorOf(
  product: Product,
  url: URL,
  env: Waiting['env'],
): Promise<(system: string, scenario: LoadScenario, size: Size) => Door> {
  const given = Object.fromEntries(product.needs.map((variable) => [variable, env[variable] ?? '']))
  const headers = await product.headers(given)
  const child: Endpoint = {
    host: url.hostname,
    port: Number(url.port || 80),
    ...(product.ownDatabase === true ? { ownDatabase: true } : {}),
  }
  return (system, scenario, size) => ({
    system,
    child,
    post: (n) => ({ ...product.read(scenario, n, size), headers }),
    rows: (answer) => product.rows(answer),
  })
}

/** @returns why not, when it was not in time */
async function untilReady(
  system: string,
  door: (scenario: LoadScenario) => Door,
  { databaseUrl, size, waitMs, progress }: Waiting,
): Promise<string | undefined> {
  for (const began = performance.now(); ;) {
    const reason = await readsDiffer()
    if (reason === undefined || performance.now() - began > waitMs) return reason
    progress(`waiting for ${system}: ${reason}`)
    await sleep(Math.min(POLL_MS, waitMs))
  }

  async function readsDiffer(): Promise<string | undefined> {
    try {
      await withClient(databaseUrl, async (client) => {
        for (const scenario of READS)
          await check(scenario, size, client, { [system]: answerThrough(door(scenario), ANSWER_MS) })
      })
      return undefined
    } catch (error) {
      if (!(error instanceof Error)) throw error
      return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
    }
  }
}

async function versionOf(product: Product, url: URL): Promise<string> {
  const answer = await fetch(new URL(product.versionPath, url), { signal: AbortSignal.timeout(ANSWER_MS) })
  return (await product.version(answer)) ?? 'of unknown version'
}
