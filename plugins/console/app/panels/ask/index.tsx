import { useLocation, useRoute } from 'preact-iso'
import { Tabs } from '../../ui/tabs.js'
import { Api } from './api.js'
import { Graphql } from './graphql.js'

/** Questions to the JSON API, and GraphiQL: `/console/ask` and `/console/ask/graphql`. */
export default function Ask() {
  const { rest = '' } = useRoute() as { readonly rest?: string }
  const { route } = useLocation()
  const isGraphql = rest.replace(/^\//, '') === 'graphql'
  return (
    <div class="page ask">
      <Tabs
        label="Ask"
        tabs={[
          { key: 'json', title: 'JSON API' },
          { key: 'graphql', title: 'GraphQL' },
        ]}
        chosen={isGraphql ? 'graphql' : 'json'}
        onChoose={(key) => route(key === 'graphql' ? '/console/ask/graphql' : '/console/ask')}
      />
      {isGraphql ? <Graphql /> : <Api />}
    </div>
  )
}
