/** For pages that the console frames: they import it from `/console/assets/panel.js`, and ask as the caller of the console. */
import { readSession } from './session.js'

await readSession()

export { ask, Failure, query, send } from './api.js'
export { callerHeaders, role } from './session.js'
