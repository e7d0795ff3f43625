import type { Data, Operation } from 'rowhouse'
import { type Json, type JsonObject, liftTableRef, parseFailed, type TableRef } from 'rowhouse/plan'
import { done } from './done.js'
import { anything, args, nullableText, tableSchema } from './shapes.js'

const cascade = { type: 'boolean' } as const

/** Tracking, and the two kinds of relationship. */
export function tableOperations(data: Data): Record<string, Operation> {
  const track: Operation = {
    admin: true,
    args: tableSchema,
    async run(value, call) {
      const ref = liftTableRef(value, '$.args')
      await data.alter(call, (edit) => edit.trackTable(ref))
      return done
    },
  }
  const create = (type: 'object' | 'array'): Operation => ({
    admin: true,
    args: args({ table: tableSchema, name: { type: 'string', minLength: 1 }, using: anything, comment: nullableText }, [
      'comment',
    ]),
    async run(value, call) {
      const { table, name, using, comment } = value as JsonObject
      const ref = liftTableRef(table, '$.args.table')
      const row = {
        name: name as string,
        type,
        definition: oldSpelling(using as Json),
        comment: (comment ?? null) as string | null,
      }
      await data.alter(call, (edit) => edit.createRelationship(ref, row))
      return done
    },
  })
  return {
    track_table: track,
    add_existing_table_or_view: track,
    untrack_table: {
      admin: true,
      args: args({ table: tableSchema, cascade }, ['cascade']),
      async run(value, call) {
        const { table, cascade: whole } = value as JsonObject
        const ref = liftTableRef(table, '$.args.table')
        await data.alter(call, (edit) => edit.untrackTable(ref, whole === true))
        return done
      },
    },
    create_object_relationship: create('object'),
    create_array_relationship: create('array'),
    drop_relationship: {
      admin: true,
      args: named({ cascade }, ['cascade']),
      async run(value, call) {
        const { ref, name } = nameOf(value)
        const whole = (value as JsonObject)['cascade'] === true
        await data.alter(call, (edit) => edit.dropRelationship(ref, name, whole))
        return done
      },
    },
    set_relationship_comment: {
      admin: true,
      args: named({ comment: nullableText }, ['comment']),
      async run(value, call) {
        const { ref, name } = nameOf(value)
        const comment = ((value as JsonObject)['comment'] ?? null) as string | null
        await data.alter(call, (edit) => edit.commentRelationship(ref, name, comment))
        return done
      },
    },
  }
}

/** A relationship is called `relationship` or `name`. */
const named = (more: Parameters<typeof args>[0], optional: readonly string[]) =>
  args({ table: tableSchema, relationship: { type: 'string' }, name: { type: 'string' }, ...more }, [
    'relationship',
    'name',
    ...optional,
  ])

function nameOf(value: Json): { ref: TableRef; name: string } {
  const { table, relationship, name } = value as JsonObject
  const found = relationship ?? name
  if (typeof found !== 'string') throw parseFailed("the key 'relationship' was not present", '$.args')
  return { ref: liftTableRef(table, '$.args.table'), name: found }
}

/** `manual_mapping` was once a name of `manual_configuration`. */
export function oldSpelling(using: Json): Json {
  if (typeof using !== 'object' || using === null || !('manual_mapping' in using)) return using
  const { manual_mapping: manual, ...rest } = using as JsonObject
  return { ...rest, manual_configuration: manual as Json }
}
