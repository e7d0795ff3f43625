import { useEffect, useState } from 'preact/hooks'
import { countBoth, type Trial } from './trial.js'

/** Counts, when it is asked to, of how many rows the role gets how many. */
export function CountBoth({ trial }: { readonly trial: Trial }) {
  const [found, setFound] = useState('')
  const key = JSON.stringify([trial.filter, trial.isSaved, trial.where, trial.variables])
  useEffect(() => setFound(''), [key])
  const count = async () => {
    setFound('Counting …')
    try {
      const [seen, all] = await countBoth(trial, AbortSignal.timeout(60_000))
      setFound(`${seen.toLocaleString('en')} of ${all.toLocaleString('en')} rows in total`)
    } catch (error) {
      setFound(error instanceof Error ? error.message : String(error))
    }
  }
  return found === '' ? (
    <button type="button" class="quiet" onClick={() => void count()}>
      Count all rows
    </button>
  ) : (
    <span role="status">{found}</span>
  )
}
