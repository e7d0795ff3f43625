import { readFileSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { dirname, join } from 'node:path'

/** Memory for one process, in bytes: what a busy one was seen to use, with its compile thread. */
const PROCESS_BYTES = 256 * 1024 * 1024

/** Returns how many processes this machine has cores and memory for. */
export function processesThatFit(): number {
  return Math.max(1, Math.min(cores(), Math.floor((memoryLimit() ?? totalmem()) / PROCESS_BYTES)))
}

/**
 * Returns the number of cores that this process may use, rounded up. Newer versions of Node count the quota of the
 * cgroup as well.
 */
function cores(): number {
  return Math.max(1, Math.ceil(Math.min(availableParallelism(), cpuQuota())))
}

/** Returns the memory limit of the cgroup in bytes, or undefined without one. */
export function memoryLimit(): number | undefined {
  const limit = process.constrainedMemory()
  // Without a limit, some kernels report a number beyond any machine.
  return limit > 0 && limit < totalmem() ? limit : undefined
}

/** Returns the CPU quota of the cgroup, and of those around it, in cores. */
function cpuQuota(root = '/sys/fs/cgroup'): number {
  const own = /^0::(.*)$/m.exec(read('/proc/self/cgroup'))?.[1]
  let quota = Infinity
  for (let folder = join('/', own ?? ''); own !== undefined; folder = dirname(folder)) {
    const [most, period] = read(join(root, folder, 'cpu.max'))
      .trim()
      .split(' ')
      .map(Number)
    if (most !== undefined && period !== undefined && most > 0) quota = Math.min(quota, most / period)
    if (folder === '/') break
  }
  return quota
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
