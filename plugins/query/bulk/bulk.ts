import { type Call, type Data, isAdmin, type Operation, type Operations } from 'rowhouse'
import {
  describe,
  isObject,
  type Json,
  type JsonObject,
  liftTableRef,
  parseFailed,
  stringifyJson,
  unexpectedPayload,
} from 'rowhouse/plan'
import { Pipeline } from './pipeline.js'
import { startSteps } from './run-steps.js'
import { hasSteps, refers, underMemberAsync } from './steps.js'

const MAX_MEMBERS = 1000
/** Characters: each use of a value counts, because a short query can name a long value many times. */
const MAX_REFERENCED = 64 * 2 ** 20

/** The operation `bulk`: runs queries in order in one transaction. */
export function bulkOperation(data: Data, operations: Operations): Operation {
  return {
    templatable: 'queries',
    async run(args, call) {
      if (!Array.isArray(args))
        throw parseFailed(`expecting an array of queries, but found ${describe(args)}`, '$.args')
      if (args.length > MAX_MEMBERS) throw parseFailed(`a bulk can have at most ${MAX_MEMBERS} members`, '$.args')
      if (args.length === 0) return { kind: 'text', text: '[]' }
      return data.transaction(call, async (inner) => {
        const spend = (members: number) => {
          inner.transaction.members += members
          if (inner.transaction.members > MAX_MEMBERS) {
            throw parseFailed(`nested bulks can have at most ${MAX_MEMBERS} members in total`, '$.args')
          }
        }
        const spendValue = (value: Json, path: string) => {
          inner.transaction.referenced += typeof value === 'string' ? value.length : stringifyJson(value).length
          if (inner.transaction.referenced > MAX_REFERENCED) {
            throw unexpectedPayload(`references can stand for at most ${MAX_REFERENCED} characters in total`, path)
          }
        }
        spend(args.length)
        const runQuery = async (query: Json, as: Call) => {
          const answer = await operations.run(query, { ...as, format: 'json' })
          if (answer.kind === 'text') return answer.text
          throw new Error('an operation in a bulk returned a stream')
        }
        const steps =
          call.steps || hasSteps(args)
            ? startSteps(args, { data, operations, runQuery, spend, spendValue }, inner)
            : undefined
        const answers = new Pipeline(inner.earlier)
        let readUntil = 0
        for (const [i, member] of args.entries()) {
          if (i >= readUntil && isAdmin(call.session) && tracks(member)) {
            await answers.settled()
            const metadata = metadataFrom(args, i, operations)
            await readAhead(data, metadata, inner)
            readUntil = i + metadata.length
          }
          if (!mayOverlap(member, operations, steps !== undefined)) await answers.settled()
          await answers.start((order) =>
            steps ? steps(i, order) : underMemberAsync(i, () => runQuery(member, { ...inner, ...order })),
          )
        }
        return { kind: 'text', text: `[${(await answers.all()).join(',')}]` }
      })
    },
  }
}

/**
 * Returns whether a member may start before the earlier ones have answered: it needs nothing of them, and a failure of theirs
 * undoes it.
 */
function mayOverlap(member: Json, operations: Operations, hasSteps: boolean): boolean {
  if (!isObject(member) || (hasSteps && refers(member))) return false
  const operation = operations.get(member['type'] as string)
  return operation?.undoable === true && operation.templatable !== 'queries'
}

const TRACK = ['track_table', 'add_existing_table_or_view']
const tracks = (member: Json): member is JsonObject => isObject(member) && TRACK.some((type) => type === member['type'])

/** Returns the member and those that follow it and change nothing but metadata. */
function metadataFrom(members: readonly Json[], from: number, operations: Operations): readonly Json[] {
  const rest = members.slice(from)
  const changesOthers = (member: Json): boolean => {
    const type = isObject(member) ? member['type'] : undefined
    return typeof type !== 'string' || type === 'run_sql' || operations.get(type)?.admin !== true
  }
  const end = rest.findIndex(changesOthers)
  return end < 0 ? rest : rest.slice(0, end)
}

/** Reads the tables that members will track in one query, because each query takes long. Members refuse wrong names. */
async function readAhead(data: Data, members: readonly Json[], call: Call): Promise<void> {
  const refs = members.filter(tracks).flatMap(({ args }) => {
    try {
      return [liftTableRef(isObject(args) && 'table' in args ? args['table'] : args, '$.args')]
    } catch {
      return []
    }
  })
  if (refs.length > 1) await data.alter(call, (edit) => edit.readAhead(refs))
}
