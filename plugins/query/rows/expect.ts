import {
  type Call,
  type Data,
  IF_MATCH,
  type Json,
  type JsonObject,
  readMatch,
  ServiceError,
  serviceError,
} from 'rowhouse'
import { isObject, isUnder, parseJson, splitObject, unexpectedPayload, VERSION } from 'rowhouse/plan'
import { ANY_VERSION } from './lift/writes.js'
import { type Lifted, PLANNER } from './lift/shape.js'
import { liftCount, liftSelect } from './lift/reads.js'

const EXPECT = '$.args.expect'

/**
 * Runs an update or delete of a row that must have a version, as `expect` or `If-Match` says. Others just run.
 * @param write returns the answer as JSON text
 * @throws ServiceError 412 precondition-failed: nothing was changed, because the row has another version
 */
export async function whenExpected(
  data: Data,
  given: Json,
  call: Call,
  write: (args: Json) => Promise<string>,
): Promise<string> {
  const header = call.headers?.get('If-Match') ?? ''
  const args = header === '' ? given : withMatch(given, header)
  if (!isObject(args) || args['expect'] === undefined) return write(args)
  try {
    const answer = await write(args)
    const isNone = splitObject(answer).get('affected_rows') === '0'
    if (isNone && (await isOther(data, args, call))) {
      throw serviceError('precondition-failed', 'the row does not have the expected version', `${EXPECT}.version`)
    }
    return answer
  } catch (error) {
    throw header !== '' && error instanceof ServiceError && isUnder(error.path, EXPECT) ? error.moved(IF_MATCH) : error
  }
}

function withMatch(args: Json, header: string): Json {
  if (!isObject(args)) return args
  if (args['expect'] !== undefined) throw unexpectedPayload('expect and If-Match cannot be used together', EXPECT)
  const match = readMatch(header)
  return { ...args, expect: match === 'any' ? ANY_VERSION : match }
}

/**
 * Returns whether the version is why nothing was written. A statement of its own sees what others have committed
 * meanwhile. The select permission applies, so that a hidden row is like a missing one.
 */
async function isOther(data: Data, { table, where, expect }: JsonObject, call: Call): Promise<boolean> {
  const read = async (lifted: Lifted) => parseJson((await data.run({ planner: PLANNER, ...lifted }, call)) as string)
  const of = { table, where } as JsonObject
  if (expect === ANY_VERSION) return ((await read(liftCount(of))) as { count: number }).count === 0
  const [row] = (await read(liftSelect({ ...of, columns: [VERSION] }))) as readonly JsonObject[]
  return row !== undefined && row[VERSION] !== (expect as JsonObject)['version']
}
