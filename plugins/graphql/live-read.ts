import type { Call, Data } from 'rowhouse'
import { type Json, parseJson, splitObject } from 'rowhouse/plan'
import type { Lifted } from 'rowhouse/plugins/live'
import { CURSOR } from './plan/names.js'
import {
  atSelectionSet,
  type ExecuteOptions,
  type GraphqlRequest,
  liftRequest,
  PLANNER,
  prepare,
  withPath,
} from './prepared.js'

/** The read of a subscription. */
export interface LiveRead {
  /** Lifts it again after a change of the metadata, which may change what the document means, and after each batch of a stream. */
  lift(): Promise<Lifted>
  /**
   * Takes what the read returned.
   * @returns JSON text of `data`, and whether the read now begins after it; undefined for an empty batch of a stream
   */
  take(json: string): { readonly data: string; readonly goesOn: boolean } | undefined
}

export function liveRead(data: Data, request: GraphqlRequest, options: ExecuteOptions, call: Call): LiveRead {
  /** Value of the cursor of a stream, once it has returned rows. */
  let after: Json | undefined
  let streams: true | undefined
  return {
    async lift() {
      const prepared = await prepare(data, request, options, call)
      ;({ streams } = prepared)
      const { shape, values } = liftRequest(prepared, request, options, call)
      const read =
        after === undefined
          ? { planner: PLANNER, shape, values }
          : { planner: PLANNER, shape: { ...shape, after: values.length }, values: [...values, after] }
      return { request: read, watched: await withPath(data.watch(read, call), atSelectionSet) }
    },
    take(json) {
      if (!streams) return { data: json, goesOn: false }
      const parts = splitObject(json)
      const values = parseJson(parts.get(CURSOR) ?? '[]') as readonly Json[]
      parts.delete(CURSOR)
      if (values.length === 0) return undefined
      // A value that an inherited role may not see is null.
      const last = values.findLast((value) => value !== null)
      after = last ?? after
      const texts = [...parts].map(([key, text]) => `${JSON.stringify(key)}:${text}`)
      return { data: `{${texts.join(',')}}`, goesOn: last !== undefined }
    },
  }
}
