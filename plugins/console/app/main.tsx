import { render } from 'preact'
import { LocationProvider } from 'preact-iso'
import { Shell } from './shell.js'
import { linkRefusal, readSession, signIn } from './session.js'
import './style.css'

/** Signs in with the code of a sign-in link, and removes it from the address. */
async function start(): Promise<void> {
  const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1]
  if (code !== undefined) {
    history.replaceState(null, '', location.pathname)
    await signIn({ code }).catch(async (error: unknown) => {
      linkRefusal.value = error instanceof Error ? error.message : String(error)
      await readSession()
    })
  } else await readSession()
}

render(
  <LocationProvider scope="/console">
    <Shell start={start} />
  </LocationProvider>,
  document.body,
)
