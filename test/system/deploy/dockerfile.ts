import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, copyFile, cp, mkdir, readFile, realpath } from 'node:fs/promises'
import { basename, dirname, join, posix, resolve } from 'node:path'

export const MMDEBSTRAP = '/usr/bin/mmdebstrap'

/** What a Dockerfile makes: a folder, and how a process runs in it. */
export interface Image {
  readonly root: string
  readonly env: Record<string, string>
  workdir: string
  user: string
  readonly volumes: string[]
  entrypoint: readonly string[]
  cmd: readonly string[]
  healthcheck: readonly string[]
}

export interface BuildOptions {
  /** Empty folder for the roots of the stages. */
  readonly folder: string
  /** What `COPY` reads, without what `.dockerignore` leaves out. */
  readonly context: string
  /** Fills a folder with the base image of this name, and returns its environment. */
  from(base: string, root: string): Promise<Record<string, string>>
  /** Folders that `RUN` sees, by path in the image, such as the cache of npm. */
  readonly mounts?: RunOptions['mounts']
}

/**
 * Executes the instructions of a Dockerfile with chroot, because there is no container engine. Knows those that ours
 * uses, and refuses all others.
 * @returns the image of the last stage
 */
export async function buildImage(dockerfile: string, options: BuildOptions): Promise<Image> {
  const stages: { readonly name: string; readonly image: Image }[] = []
  for (const { instruction, rest } of instructionsOf(await readFile(dockerfile, 'utf8'))) {
    if (instruction === 'FROM') {
      const [base = '', as, name = ''] = rest.split(/\s+/)
      if (as !== undefined && as !== 'AS') throw new Error(`FROM ${rest}`)
      const root = join(options.folder, String(stages.length))
      await mkdir(root)
      const env = await options.from(base, root)
      const nothing = { volumes: [], entrypoint: [], cmd: [], healthcheck: [] }
      stages.push({ name, image: { root, env, workdir: '/', user: '0:0', ...nothing } })
    } else {
      const image = stages.at(-1)?.image
      if (!image) throw new Error(`${instruction} before FROM`)
      await execute(image, instruction, rest, stages, options)
    }
  }
  return stages.at(-1)!.image
}

async function execute(
  image: Image,
  instruction: string,
  rest: string,
  stages: readonly { readonly name: string; readonly image: Image }[],
  { context, mounts }: BuildOptions,
): Promise<void> {
  switch (instruction) {
    case 'ENV':
      for (const [, name = '', value = ''] of rest.matchAll(/(\w+)=(\S+)/g)) image.env[name] = value
      return
    case 'ARG': {
      const [, name = '', value = ''] = /^(\w+)="(.*)"$/.exec(rest) ?? []
      image.env[name] = value
      return
    }
    case 'WORKDIR':
      image.workdir = posix.resolve(image.workdir, rest)
      await mkdir(join(image.root, image.workdir), { recursive: true })
      return
    case 'COPY': {
      const [, stage, paths = ''] = /^(?:--from=(\w+)\s+)?(.*)$/.exec(rest) ?? []
      const from = stage === undefined ? context : stages.find(({ name }) => name === stage)!.image.root
      await copy(image, from, paths.split(/\s+/))
      return
    }
    case 'RUN':
      return runIn(image, ['/bin/sh', '-c', rest], mounts)
    case 'VOLUME':
      image.volumes.push(rest)
      return
    case 'USER':
      image.user = rest
      return
    case 'HEALTHCHECK':
      image.healthcheck = JSON.parse(rest.slice(rest.indexOf('['))) as string[]
      return
    case 'ENTRYPOINT':
      image.entrypoint = JSON.parse(rest) as string[]
      return
    case 'CMD':
      image.cmd = JSON.parse(rest) as string[]
      return
    case 'EXPOSE':
      return
    default:
      throw new Error(`the test does not know the instruction ${instruction}`)
  }
}

function instructionsOf(text: string): readonly { readonly instruction: string; readonly rest: string }[] {
  const lines = text.split('\n').filter((line) => !line.startsWith('#'))
  const joined = lines.join('\n').replaceAll(/\\\n\s*/g, '')
  return joined
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [, instruction = '', rest = ''] = /^(\w+)\s+(.*)$/.exec(line) ?? []
      return { instruction, rest }
    })
}

async function copy(image: Image, from: string, paths: readonly string[]): Promise<void> {
  const target = posix.resolve(image.workdir, paths.at(-1)!)
  for (const path of paths.slice(0, -1)) {
    const source = resolve(from, path.replace(/^\//, ''))
    const single = paths.length > 2 || paths.at(-1)!.endsWith('/')
    const place = join(image.root, single ? join(target, basename(source)) : target)
    await mkdir(dirname(place), { recursive: true })
    await cp(source, place, { recursive: true, verbatimSymlinks: true })
  }
}

/** The context of a build: what Git knows, and the exceptions of a `.dockerignore` whose first rule is `*`. */
export async function copyContext(repository: string, tracked: readonly string[], target: string): Promise<void> {
  const [all, ...rules] = (await readFile(join(repository, '.dockerignore'), 'utf8'))
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
  if (all !== '*' || !rules.every((rule) => /^![^*!]+$/.test(rule))) throw new Error('the test knows simple rules only')
  const kept = rules.map((rule) => rule.slice(1))
  for (const file of tracked.filter((path) => kept.some((rule) => path === rule || path.startsWith(`${rule}/`)))) {
    await mkdir(dirname(join(target, file)), { recursive: true })
    await copyFile(join(repository, file), join(target, file))
    await chmod(join(target, file), 0o644)
  }
}

/** Runs a command in an image, with network, and with the root file system writable. @throws Error with its output */
async function runIn(image: Image, command: readonly string[], mounts: RunOptions['mounts']): Promise<void> {
  const child = spawnIn(image, command, { writable: true, mounts })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const [code] = (await once(child, 'close')) as [number | null]
  if (code !== 0) throw new Error(`${command.join(' ')}\n${output}`)
}

export interface RunOptions {
  readonly writable?: boolean
  readonly env?: Readonly<Record<string, string>>
  /** Folders for the volumes, by path in the image. */
  readonly mounts?: Readonly<Record<string, string>>
}

/**
 * Starts a command as process 1 of a PID namespace, with its own mounts. A signal to the child reaches no process: send
 * it with `signalIn`.
 */
export function spawnIn(image: Image, command: readonly string[], { writable, env, mounts = {} }: RunOptions = {}) {
  const { root } = image
  const script = [
    'mount --make-rprivate /',
    `mount --bind ${root} ${root}`,
    `mount -t proc proc ${root}/proc`,
    `mount --rbind /dev ${root}/dev`,
    ...(writable ? [] : [`mount -o remount,bind,ro ${root}`]),
    ...Object.entries(mounts).map(([path, folder]) => `mount --bind ${folder} ${root}${path}`),
    `exec chroot --userspec=${image.user} ${root} /usr/bin/env --ignore-environment --chdir=${image.workdir} "$@"`,
  ].join(' && ')
  const settings = Object.entries({ HOME: '/root', ...image.env, ...env }).map(([name, value]) => `${name}=${value}`)
  return spawn(
    'unshare',
    ['--mount', '--pid', '--fork', '--kill-child', 'sh', '-c', script, 'sh', ...settings, ...command],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  )
}

/** Sends a signal to process 1 of what `spawnIn` started. */
export async function signalIn(child: ReturnType<typeof spawnIn>, signal: NodeJS.Signals): Promise<void> {
  const children = await readFile(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')
  process.kill(Number(children.trim()), signal)
}

/** The program that process 1 is. */
export async function programIn(child: ReturnType<typeof spawnIn>): Promise<string> {
  const children = await readFile(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')
  return basename(await realpath(`/proc/${children.trim()}/exe`))
}
