import { useState } from 'preact/hooks'
import { ask, Failure } from '../../api.js'
import { timeText } from '../../time.js'
import { Code } from '../../ui/code.js'
import { Dialog } from '../../ui/dialog.js'
import { fieldsOf } from '../../ui/form.js'
import { Problem } from '../../ui/problem.js'
import { nameOf, userHeaders } from './file-table.js'

const TIMES = [
  [900, '15 minutes'],
  [3600, '1 hour'],
  [86_400, '1 day'],
  [604_800, '7 days'],
] as const

interface Signed {
  readonly url: string
  readonly expires_at: string
}

/** Makes an address of a file that needs no sign-in until it expires. */
export function SignedAddress({ id, close }: { readonly id: string; readonly close: () => void }) {
  const [signed, setSigned] = useState<Signed>()
  const [failure, setFailure] = useState<unknown>()
  const submit = async (event: SubmitEvent) => {
    const { seconds, download } = fieldsOf(event)
    setFailure(undefined)
    try {
      const json = { file_id: id, expires_in: Number(seconds), download: download ? nameOf(id) : undefined }
      setSigned(await ask<Signed>('/v1/file-url', { json, headers: userHeaders() }))
    } catch (error) {
      setFailure(error)
    }
  }
  const isOff = failure instanceof Failure && failure.code === 'not-found'
  return (
    <Dialog title="Signed address" close={close}>
      <p>Everybody who has the address can read this file until it expires.</p>
      <form onSubmit={(event) => void submit(event)}>
        <p class="row">
          <label>
            Valid for{' '}
            <select name="seconds">
              {TIMES.map(([seconds, text]) => (
                <option key={seconds} value={seconds}>
                  {text}
                </option>
              ))}
            </select>
          </label>
          <label>
            <input type="checkbox" name="download" /> Saves the file instead of showing it
          </label>
        </p>
        <p>
          <button class="primary">Create</button>
        </p>
      </form>
      {failure !== undefined && !isOff && <Problem of={failure} />}
      {isOff && (
        <p class="problem">
          Signed addresses are turned off: <code>plugins.filestore.signedUrls.maxSeconds</code> is 0.
        </p>
      )}
      {signed && (
        <>
          <Code label="Signed address" text={new URL(signed.url, location.origin).href} />
          <p class="soft">Expires on {timeText(signed.expires_at)}.</p>
        </>
      )}
    </Dialog>
  )
}
