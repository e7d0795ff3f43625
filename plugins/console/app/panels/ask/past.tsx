import { Dialog } from '../../ui/dialog.js'
import { addQuestion, asked, forgetAsked } from './questions.js'

/** What was asked before. A click opens it in a new tab. */
export function PastDialog({ close }: { readonly close: () => void }) {
  return (
    <Dialog title="History" close={close}>
      <p class="soft">
        This browser keeps the last 100 requests, without their answers. It does not keep those that mention passwords,
        secrets or tokens.
      </p>
      {asked.value.length === 0 && <p class="empty">Nothing was asked yet.</p>}
      <ul class="past">
        {asked.value.map(({ text, at }) => (
          <li key={at}>
            <button
              type="button"
              onClick={() => {
                addQuestion(text)
                close()
              }}
            >
              <span class="soft">{new Date(at).toLocaleString('en')}</span>
              <code>{text.replaceAll(/\s+/g, ' ').slice(0, 200)}</code>
            </button>
          </li>
        ))}
      </ul>
      {asked.value.length > 0 && (
        <button type="button" class="danger" onClick={forgetAsked}>
          Delete history
        </button>
      )}
    </Dialog>
  )
}
