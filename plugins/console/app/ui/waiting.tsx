import { useEffect, useReducer } from 'preact/hooks'

/** Seconds that an answer may take before anybody wonders. */
const USUAL = 2

/** Says for how long the server has not answered, once that is longer than usual. */
export function Waiting({ since, stop }: { readonly since: number; readonly stop: () => void }) {
  const [, tick] = useReducer((n: number) => n + 1, 0)
  useEffect(() => {
    const timer = setInterval(tick, 500)
    return () => clearInterval(timer)
  }, [])
  const seconds = Math.floor((performance.now() - since) / 1000)
  if (seconds < USUAL) return null
  return (
    <p class="waiting row soft">
      <span role="status">Waiting for an answer</span> {seconds} s
      <button type="button" onClick={stop}>
        Stop
      </button>
    </p>
  )
}
