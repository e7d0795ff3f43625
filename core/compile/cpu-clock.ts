import { readFileSync } from 'node:fs'

/**
 * Measures the CPU time of a thread of this process in ms, from the call on. Linux says it by thread. Elsewhere the CPU time of the
 * process, and the time on the wall, are both upper bounds, and the smaller one counts.
 * @param thread thread id of Linux; -1 when it is not known
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
