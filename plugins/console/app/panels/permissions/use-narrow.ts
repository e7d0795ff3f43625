import { useEffect, useState } from 'preact/hooks'

/** Whether the window has the width of a phone. */
export function useNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(QUERY.matches)
  useEffect(() => {
    const follow = () => setNarrow(QUERY.matches)
    QUERY.addEventListener('change', follow)
    return () => QUERY.removeEventListener('change', follow)
  }, [])
  return isNarrow
}

const QUERY = matchMedia('(max-width: 48rem)')
