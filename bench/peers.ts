import { readdirSync } from 'node:fs'
import { copyFile, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runProgram } from './program.js'

/** Another server that can answer the same, from packages of its own. */
export interface Peer {
  /** With its version. */
  readonly name: string
  readonly kind: PeerKind
  /** Where its `node_modules` is. */
  readonly folder: string
}

/** What its adapter is called. */
export type PeerKind = 'postgraphile' | 'postgraphile-4' | 'directus' | 'fastify' | 'tus'

export interface Peers {
  readonly peers: readonly Peer[]
  /** Which are not there, and what would change that. */
  readonly notMeasured: readonly string[]
}

/** In the source tree: each peer has a `package.json` and a lock file there. */
const FOLDER = fileURLToPath(new URL('../../bench/peers/', import.meta.url))

/** What `--peers` may name. */
export const PEERS: readonly string[] = readdirSync(FOLDER).toSorted()

/** Installs the peers that run on this Node, each from its lock file. What is installed already stays. */
export async function installPeers(wanted: readonly string[], progress: (text: string) => void): Promise<Peers> {
  const peers: Peer[] = []
  const notMeasured: string[] = []
  for (const entry of PEERS) {
    const folder = join(FOLDER, entry)
    const { name, node, kind, build } = await describe(folder)
    if (!wanted.includes(entry)) notMeasured.push(`${name}, which --peers ${entry} installs`)
    else if (Number.parseInt(process.versions.node) < node)
      notMeasured.push(
        `${name}, which needs Node ${node} or newer, and this is ${process.version}: run the bench with one`,
      )
    else if (await install(folder, name, build, progress).catch(complain(name, notMeasured)))
      peers.push({ name, kind, folder })
  }
  return { peers, notMeasured }
}

interface Manifest {
  readonly config: { readonly kind: PeerKind; readonly package?: string; readonly build?: string }
  readonly engines: { readonly node: string }
  readonly dependencies: Readonly<Record<string, string>>
}

interface Described extends Pick<Peer, 'name' | 'kind'> {
  readonly node: number
  /** A package of which a part has to be compiled. */
  readonly build: string | undefined
}

/** A peer is called by its package, which is its first dependency unless `config` says another one; its oldest Node is a major version. */
async function describe(folder: string): Promise<Described> {
  const manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as Manifest
  const { kind, build, package: called = Object.keys(manifest.dependencies)[0] ?? '' } = manifest.config
  const name = `${called} ${manifest.dependencies[called]}`
  return { name, kind, build, node: Number(/^>=(\d+)$/.exec(manifest.engines.node)?.[1]) }
}

/** Scripts of packages do not run, but that of the one that has to be compiled. */
async function install(
  folder: string,
  name: string,
  build: string | undefined,
  progress: (text: string) => void,
): Promise<boolean> {
  const lock = join(folder, 'package-lock.json')
  const installed = join(folder, 'node_modules/.installed-lock.json')
  if ((await readFile(installed, 'utf8').catch(() => '')) === (await readFile(lock, 'utf8'))) return true
  progress(`installing ${name}`)
  await runProgram('npm', ['ci', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund'])
  if (build !== undefined) await runProgram('npm', ['rebuild', '--prefix', folder, build])
  await copyFile(lock, installed)
  return true
}

const complain = (name: string, notMeasured: string[]) => (error: unknown) => {
  const reason = error instanceof Error ? (error.message.split('\n').findLast((line) => line !== '') ?? '') : ''
  notMeasured.push(`${name}, which could not be installed: ${reason}`)
  return false
}
