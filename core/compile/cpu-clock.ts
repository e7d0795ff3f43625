import { readFileSync } from 'node:fs'

/**
 * Measures the CPU time of a thread of this process from now on, in milliseconds. On Linux it reads the time of the
 * thread. Elsewhere it returns the smaller of two upper bounds: the CPU time of the process, and the elapsed time.
 * @param thread Linux thread id; -1 when unknown
 */
export function cpuClock(thread: number): () => number {
  const start = threadCpuMs(thread)
  const wallStart = performance.now()
  const processStart = process.cpuUsage()
  return () => {
    const now = threadCpuMs(thread)
    if (start !== undefined && now !== undefined) return now - start
    const { user, system } = process.cpuUsage(processStart)
    return Math.min(performance.now() - wallStart, (user + system) / 1000)
  }
}

function threadCpuMs(thread: number): number | undefined {
  if (thread < 0) return undefined
  try {
    const [ns] = readFileSync(`/proc/self/task/${thread}/schedstat`, 'utf8').split(' ')
    return Number(ns) / 1e6
  } catch {
    return undefined
  }
}
