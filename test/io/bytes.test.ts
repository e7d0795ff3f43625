import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'

/** Bytes that the server allocates for a request of a known shape, and 3 %. A change that raises a number needs a reason. */
const MOST = {
  'one row by key': 22_500,
  '100 rows': 25_200,
  'one row inserted': 25_700,
  'one row by key with GraphQL': 28_600,
}

t.test('a request allocates little', async (t) => {
  // A process of its own: what observes tests allocates too.
  const program = fileURLToPath(new URL('../../bench/micro/bytes.js', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [program, '--list'])
  for (const [name, most] of Object.entries(MOST)) {
    const bytes = Number(new RegExp(`^${name}: (\\d+) bytes$`, 'm').exec(stdout)?.[1])
    t.ok(bytes > most / 2 && bytes <= most, `${name}: at most ${most} bytes, and it is ${bytes}`, { stdout })
  }
})
