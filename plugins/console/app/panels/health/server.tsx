import type { ComponentChildren } from 'preact'
import { Problem } from '../../ui/problem.js'
import { timeText } from '../../time.js'
import { type ConnectedServer, type ServerStatus, status } from './watch.js'

/** Versions, connected servers, pools, providers and migrations. */
export function Server() {
  const { value, failure } = status.value
  if (!value) return failure === undefined ? <p class="wait">Loading …</p> : <Problem of={failure} />
  const { knownDatabase } = value
  return (
    <div class="body server-facts">
      <Process of={value} />
      <Database of={value} />
      {knownDatabase && <Servers servers={knownDatabase.servers ?? []} />}
      <Table
        title="Connection pools"
        heads={['Pool', 'Maximum', 'In use', 'Idle', 'Requests that wait']}
        rows={value.pools.map(({ name, max, busy, idle, open, waiting }) => [
          name,
          max,
          busy,
          idle ?? (open === undefined ? '–' : open - busy),
          waiting ?? '–',
        ])}
        numeric
      />
      <Table
        title="Providers"
        empty="No provider of files or messages is configured."
        heads={['Kind', 'Name', 'Provider', '']}
        rows={value.providers.map((each) => [each.kind, each.name, each.provider, each.default ? 'default' : ''])}
      />
      {knownDatabase && (
        <Table
          title="Migrations"
          empty="No migration was run."
          heads={['Plugin', 'Last migration']}
          rows={Object.entries(knownDatabase.migrations ?? {})}
        />
      )}
      <section class="fact">
        <h2>Plugins</h2>
        <p>{value.plugins.join(', ')}</p>
      </section>
    </div>
  )
}

function Process({ of: { version, node, platform, host, pid, started_at: startedAt, server } }: Of) {
  return (
    <Facts
      title="This server"
      facts={[
        ['Rowhouse', version],
        ['Node.js', `${node} on ${platform}`],
        ['Host', `${host}, process ${pid}`],
        ['Started', timeText(startedAt)],
        ['Id of this start', <code>{server}</code>],
      ]}
    />
  )
}

function Database({ of: { database, metadata } }: Of) {
  const listening = metadata.listening ? (
    <span class="good">listens for changes</span>
  ) : (
    <span class="odd">does not listen: changes arrive within 5 s</span>
  )
  if (!database)
    return (
      <section class="fact">
        <h2>Database</h2>
        <p class="bad">PostgreSQL does not answer.</p>
        <p>
          Requests use version {metadata.version} of the metadata. Check that PostgreSQL runs, and read the server's
          log.
        </p>
      </section>
    )
  const isCurrent = database.metadata_version === metadata.version
  return (
    <Facts
      title="Database"
      facts={[
        ['PostgreSQL', `${database.version}${database.standby ? ', a standby' : ''}`],
        [
          'Metadata',
          <>
            version {metadata.version}, {listening}
            {!isCurrent && <span class="odd">; the database has version {database.metadata_version}</span>}
          </>,
        ],
      ]}
    />
  )
}

const Servers = ({ servers }: { readonly servers: readonly ConnectedServer[] }) => (
  <Table
    title="Servers at this database"
    empty="PostgreSQL shows none to this user."
    heads={['Address', 'Servers', 'Connections', 'Since']}
    rows={servers.map(({ address, own, servers: count, connections, since }) => [
      `${address ?? 'unix socket'}${own ? ' (this server)' : ''}`,
      count,
      connections,
      timeText(since),
    ])}
  />
)

interface Of {
  readonly of: ServerStatus
}

function Facts({
  title,
  facts,
}: {
  readonly title: string
  readonly facts: readonly (readonly [string, ComponentChildren])[]
}) {
  return (
    <section class="fact">
      <h2>{title}</h2>
      <dl>
        {facts.map(([name, fact]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{fact}</dd>
          </div>
        ))}
      </dl>
    </section>
  )
}

function Table({
  title,
  empty = 'There is none.',
  heads,
  rows,
  numeric = false,
}: {
  readonly title: string
  readonly empty?: string
  readonly heads: readonly string[]
  readonly rows: readonly (readonly (string | number)[])[]
  /** Whether all columns but the first are numbers. */
  readonly numeric?: boolean
}) {
  return (
    <section class="fact">
      <h2>{title}</h2>
      {rows.length === 0 ? (
        <p class="soft">{empty}</p>
      ) : (
        <div class="table" role="region" aria-label={title} tabIndex={0}>
          <table class={numeric ? 'numbers' : undefined}>
            <thead>
              <tr>{heads.map((head, i) => (head === '' ? <td key={i} /> : <th key={i}>{head}</th>))}</tr>
            </thead>
            <tbody>
              {rows.map((row, i) => (
                <tr key={i}>
                  {row.map((cell, j) => (
                    <td key={j}>
                      <bdi>{cell}</bdi>
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}
