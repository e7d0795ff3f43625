import type { JsonObject } from 'rowhouse/plan'

/** Something that was not moved, or not completely. */
interface Item {
  /** What it is, e.g. `event trigger`. */
  readonly kind: string
  /** Its name, e.g. `article.notify`. */
  readonly name: string
  readonly reason?: string
}

/** What happened to the parts of a project. */
export class Report {
  /** Parts that were not moved. */
  readonly left: Item[] = []
  /** Parts that were moved, and differ. */
  readonly notes: Item[] = []
  /** Parts that the server refused. */
  readonly refused: Item[] = []
  /** Settings of `plugins.graphql` that the moved project needs. */
  readonly graphql: JsonObject = {}
  /** Providers of events that it needs, by name. */
  readonly receivers: JsonObject = {}

  leave(kind: string, name: string, reason?: string): void {
    this.left.push({ kind, name, reason })
  }
  note(kind: string, name: string, reason: string): void {
    this.notes.push({ kind, name, reason })
  }
  get configuration(): JsonObject {
    return {
      ...(Object.keys(this.graphql).length > 0 ? { plugins: { graphql: this.graphql } } : {}),
      ...(Object.keys(this.receivers).length > 0 ? { providers: { event: this.receivers } } : {}),
    }
  }
  get isComplete(): boolean {
    return this.left.length + this.refused.length === 0
  }

  toJSON(): object {
    return {
      left: this.left.map((item) => ({ ...item, instead: insteadOf(item.kind) })),
      notes: this.notes,
      refused: this.refused,
      configuration: this.configuration,
    }
  }

  lines(): readonly string[] {
    return [
      ...section('not moved', this.left),
      ...section('refused by the server', this.refused),
      ...section('moved with a difference', this.notes),
      ...(Object.keys(this.configuration).length > 0
        ? ['\nadd to the configuration:', JSON.stringify(this.configuration, null, 2)]
        : []),
    ]
  }
}

/** What to do about parts that Rowhouse does not have, by kind. */
const INSTEAD: Readonly<Record<string, string>> = {
  'event trigger': 'create it by hand; see plugins/events/README.md',
  action: 'write a plugin with a route, or call your service directly',
  'custom type': 'it belongs to actions',
  'cron trigger': 'create a schedule; see plugins/events/README.md',
  'remote schema': 'the plugin stitch combines GraphQL services; see plugins/stitch/README.md',
  'remote relationship':
    'within one database use manual_configuration; for another GraphQL service see plugins/stitch/README.md',
  'inherited role': 'give the role the permissions of its members',
  'api limits': 'see limits in core/SETTINGS.md, and plugins.graphql.limits and plugins.graphql.roles',
  source: 'import it with --source NAME into the database of a second server',
  introspection: 'set plugins.graphql.introspection to false to switch it off for all roles but admin',
  'REST endpoint': 'send its document to /v1/graphql, or by the name of the document as documentId',
  'insert permission': 'create it by hand, perhaps for another role',
  'select permission': 'create it by hand, perhaps for another role',
  'update permission': 'create it by hand, perhaps for another role',
  'delete permission': 'create it by hand, perhaps for another role',
}

const insteadOf = (kind: string): string | undefined => (Object.hasOwn(INSTEAD, kind) ? INSTEAD[kind] : undefined)

function section(title: string, items: readonly Item[]): readonly string[] {
  if (items.length === 0) return []
  const kinds = [...new Set(items.map(({ kind }) => kind))]
  return [
    `\n${title}:`,
    ...kinds.flatMap((kind) => {
      const of = items.filter((item) => item.kind === kind)
      const instead = title === 'not moved' ? insteadOf(kind) : undefined
      return [
        `  ${kind}${instead === undefined ? '' : ` (${instead})`}:`,
        ...of.map(({ name, reason }) => `    ${name}${reason === undefined ? '' : `: ${reason}`}`),
      ]
    }),
  ]
}
