import { useMemo, useState } from 'preact/hooks'
import { query } from '../../api.js'
import { keepPlot } from '../../kept-plot.js'
import { type Json, type JsonObject, textOf } from '../../json.js'
import { Dialog } from '../../ui/dialog.js'
import { fieldsOf } from '../../ui/form.js'
import type { Choice } from '../../ui/figures.js'
import { Problem } from '../../ui/problem.js'
import { constantsOf, replaced } from './constants.js'

interface Parameter {
  /** Empty for a value that stays as it is. */
  readonly name: string
  readonly hasDefault: boolean
}

/** Keeps a request as a query template. Any of its constants can become a parameter. */
export function TemplateDialog({
  request,
  plot,
  close,
}: {
  readonly request: JsonObject
  /** The plot that is shown of the answer. */
  readonly plot: Choice | undefined
  readonly close: () => void
}) {
  const constants = useMemo(() => constantsOf(request), [request])
  const [parameters, setParameters] = useState<readonly Parameter[]>(() =>
    constants.map(() => ({ name: '', hasDefault: true })),
  )
  const [kept, setKept] = useState('')
  const [failure, setFailure] = useState<unknown>()
  const change = (index: number, by: Partial<Parameter>) =>
    setParameters(parameters.map((each, i) => (i === index ? { ...each, ...by } : each)))
  const submit = async (event: SubmitEvent) => {
    const { name = '', comment = '' } = fieldsOf(event)
    const changes = constants.flatMap(({ path, value }, i) => {
      const parameter = parameters[i]!
      if (parameter.name === '') return []
      return [{ path, value: { param: parameter.name, ...(parameter.hasDefault ? { default: value } : {}) } as Json }]
    })
    setFailure(undefined)
    try {
      const args = { name, template: replaced(request, changes), ...(comment === '' ? {} : { comment }) }
      await query('create_query_template', args, { as: null })
      if (plot) keepPlot(name, plot)
      setKept(name)
    } catch (error) {
      setFailure(error)
    }
  }
  if (kept !== '') {
    return (
      <Dialog title="Keep as template" close={close}>
        <p class="good" role="status">
          The template {kept} is kept.
        </p>
        <p>
          <a href={`/console/templates/${encodeURIComponent(kept)}`}>Open it</a>. Programs run it at{' '}
          <code>/v1/template/{encodeURIComponent(kept)}</code>, as every role that may run this request.
        </p>
      </Dialog>
    )
  }
  return (
    <Dialog title="Keep as template" close={close}>
      <form class="template-form" onSubmit={(event) => void submit(event)}>
        <label>
          Name
          <input name="name" required autocomplete="off" spellcheck={false} />
        </label>
        <label>
          Comment
          <input name="comment" autocomplete="off" />
        </label>
        <fieldset>
          <legend>Values that become parameters</legend>
          {constants.length === 0 && <p class="soft">The request has no value that could be a parameter.</p>}
          {constants.map(({ path, value, name }, i) => {
            const parameter = parameters[i]!
            const place = path.slice(1).join('.')
            return (
              <div class="row constant" key={place}>
                <label>
                  <input
                    type="checkbox"
                    checked={parameter.name !== ''}
                    onChange={({ currentTarget }) => change(i, { name: currentTarget.checked ? name : '' })}
                  />{' '}
                  <code>{place}</code> <span class="soft">{textOf(value).slice(0, 60)}</span>
                </label>
                {parameter.name !== '' && (
                  <>
                    <input
                      aria-label={`Name of the parameter for ${place}`}
                      value={parameter.name}
                      required
                      onChange={({ currentTarget }) => change(i, { name: currentTarget.value })}
                    />
                    <label>
                      <input
                        type="checkbox"
                        checked={parameter.hasDefault}
                        onChange={({ currentTarget }) => change(i, { hasDefault: currentTarget.checked })}
                      />{' '}
                      with this value as default
                    </label>
                  </>
                )}
              </div>
            )
          })}
        </fieldset>
        {plot && <p class="soft">Your browser keeps the plot for the template, too, until you sign out.</p>}
        {failure !== undefined && <Problem of={failure} />}
        <p>
          <button class="primary">Keep</button>
        </p>
      </form>
    </Dialog>
  )
}
