import { useEffect, useRef, useState } from 'preact/hooks'
import { ask, Failure, reasonIn } from '../../api.js'
import { type JsonObject, parse, textOf } from '../../json.js'
import { Dialog } from '../../ui/dialog.js'
import { type Explain, type Explained, Explanation } from '../../ui/explanation.js'

/** GraphiQL. For an admin it has a button that sends the request of its editor here, to explain it. */
export function Graphql() {
  const frame = useRef<HTMLIFrameElement>(null)
  const [request, setRequest] = useState<JsonObject>()
  useEffect(() => {
    const receive = ({ source, origin, data }: MessageEvent<JsonObject | null>) => {
      if (origin !== location.origin || source !== frame.current?.contentWindow) return
      if (data?.['type'] === 'rowhouse-explain') setRequest(data)
    }
    addEventListener('message', receive)
    return () => removeEventListener('message', receive)
  }, [])
  return (
    <>
      <iframe ref={frame} class="graphiql" src="/v1/graphql" title="GraphiQL" />
      {request && (
        <Dialog title="Explain" close={() => setRequest(undefined)}>
          <Explanation explain={explainGraphql(request)} isWrite={/\bmutation\b/.test(textOf(request['query']))} />
        </Dialog>
      )}
    </>
  )
}

/** @param request the texts of the editors; `variables` may be empty */
const explainGraphql =
  ({ query, variables, operationName }: JsonObject): Explain =>
  async (analyze, signal) => {
    const values = parse(textOf(variables).trim() || '{}')
    const json = { query, variables: values, operationName, analyze }
    const answer = await ask<readonly Explained[] | JsonObject>('/v1/graphql/explain', { json, signal })
    if (!Array.isArray(answer)) throw new Failure(200, reasonIn(answer as JsonObject))
    return answer as readonly Explained[]
  }
