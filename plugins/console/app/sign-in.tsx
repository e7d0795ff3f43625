import { useState } from 'preact/hooks'
import { linkRefusal, signIn } from './session.js'
import { fieldsOf } from './ui/form.js'

/** Asks for the admin secret or a token. Neither is kept in the browser: the server sets a cookie. */
export function SignIn() {
  const [kind, setKind] = useState<'secret' | 'token'>('secret')
  const [refusal, setRefusal] = useState(linkRefusal.value)
  const [isBusy, setBusy] = useState(false)
  const submit = async (event: SubmitEvent) => {
    const { credential = '', role = '' } = fieldsOf(event)
    setBusy(true)
    try {
      await signIn({
        headers:
          kind === 'secret'
            ? { 'X-Service-Admin-Secret': credential }
            : { Authorization: `Bearer ${credential}`, ...(role === '' ? {} : { 'X-Service-Role': role }) },
      })
    } catch (error) {
      setRefusal(error instanceof Error ? error.message : String(error))
      setBusy(false)
    }
  }
  return (
    <main class="sign-in">
      <h1>Rowhouse</h1>
      <form onSubmit={(event) => void submit(event)}>
        <fieldset>
          <legend>Sign in with</legend>
          <label>
            <input type="radio" name="kind" checked={kind === 'secret'} onChange={() => setKind('secret')} /> the admin
            secret
          </label>
          <label>
            <input type="radio" name="kind" checked={kind === 'token'} onChange={() => setKind('token')} /> a token
          </label>
        </fieldset>
        <label>
          {kind === 'secret' ? 'Admin secret' : 'Token'}
          <input name="credential" type="password" autocomplete="off" spellcheck={false} required autofocus />
        </label>
        {kind === 'token' && (
          <label>
            Role, if the token has several
            <input name="role" autocomplete="off" spellcheck={false} />
          </label>
        )}
        <p class="bad" role="alert">
          {refusal}
        </p>
        <button class="primary" disabled={isBusy}>
          Sign in
        </button>
        <p class="soft">
          In development the admin secret is in <code>.rowhouse/admin-secret</code>, and <code>npm start</code> prints a
          link that signs you in.
        </p>
      </form>
    </main>
  )
}
