import { once } from 'node:events'
import pg from 'pg'
import t, { type Test } from 'tap'
import { loadData } from '../../bench/data.js'
import { reachPeers, readPeerUrl, type Waiting } from '../../bench/peers-by-url.js'
import { byPk } from '../../bench/scenarios/by-pk.js'
import { createPolicies } from '../../bench/systems/peer.js'
import { freshDatabase } from '../kit/database.js'
import { type FakePeer, serve } from './fake-peers/fake-peer.js'
import { hasura } from './fake-peers/hasura.js'
import { postgrest } from './fake-peers/postgrest.js'

const SIZE = { name: 'test', authors: 20 }
const SECRET = 'a secret of the test that is long enough'
const env = {
  HASURA_GRAPHQL_ADMIN_SECRET: SECRET,
  PGRST_JWT_SECRET: SECRET,
  JWT_SECRET: SECRET,
  ANON_KEY: 'the key of the gateway',
}

t.test('products are asked by their URL for the same rows, each in its own language', async (t) => {
  const { client, waiting } = await data(t)
  const rest = postgrest(client, SECRET)
  const urls = {
    hasura: await serve(t, await hasura(client, SECRET)),
    postgrest: await serve(t, rest),
    supabase: await serve(t, behindGateway(rest)),
  }
  const { peers, notMeasured } = await reachPeers(
    Object.entries(urls).map(([name, url]) => readPeerUrl(`${name}=${url}`)),
    waiting,
  )

  t.same(notMeasured, [], 'all four reads are answered as the reference query says')
  const doors = peers.map((peer) => peer.door(byPk, SIZE))
  t.same(
    doors.map(({ system }) => system.replace(/:\d+$/, '')),
    ['Hasura v2.0.0 at 127.0.0.1', 'PostgREST 13.0.0 at 127.0.0.1', 'Supabase 13.0.0 at 127.0.0.1'],
  )
  t.same(
    doors.map(({ child }) => child.ownDatabase ?? false),
    [false, false, true],
    'what Supabase does in its own PostgreSQL is not counted as nothing',
  )
})

t.test(
  'who is not named, has no secret, or answers something else is not measured, and the reason is said',
  async (t) => {
    const { client, waiting } = await data(t)
    const url = await serve(t, await hasura(client, 'another secret'))
    const reached = (...wanted: string[]) => reachPeers(wanted.map(readPeerUrl), waiting)

    t.same(await reached(), {
      peers: [],
      notMeasured: [
        'Hasura (no package; --peer hasura=URL)',
        'PostgREST (no package; --peer postgrest=URL)',
        'Supabase (no package; --peer supabase=URL)',
      ],
    })
    t.match((await reached(`hasura=${url}`)).notMeasured, [
      /PostgREST/,
      /Supabase/,
      /^Hasura at 127.*invalid x-hasura-admin-secret/,
    ])
    const without = await reachPeers([readPeerUrl('supabase=http://127.0.0.1:1')], {
      ...waiting,
      env: { JWT_SECRET: SECRET },
    })
    t.match(without.notMeasured, [
      /Hasura/,
      /PostgREST/,
      /^Supabase at 127\.0\.0\.1:1, which needs ANON_KEY in the environment/,
    ])
    await client.query(`drop policy bench_token_article on article`)
    const other = await serve(t, postgrest(client, SECRET))
    t.match(
      (await reached(`postgrest=${other}`)).notMeasured[2],
      /scenario a: PostgREST at .* answers request 0 with \[\], not/,
    )
  },
)

t.test('a value of --peer is a known name and the URL of a server', async (t) => {
  for (const text of ['hasura', 'http://h', 'mongo=http://h', 'hasura=https://h', 'hasura=http://h/v1', 'hasura=h:80'])
    t.throws(() => readPeerUrl(text), /--peer/, text)
  t.match(readPeerUrl('hasura=http://localhost:8080/'), { product: 'hasura', url: { host: 'localhost:8080' } })
})

/** Supabase's way in: a key, and PostgREST below a path. */
const behindGateway =
  (rest: FakePeer): FakePeer =>
  async (request) => {
    const path = request.path.replace(/^\/rest\/v1/, '')
    if (path === request.path) return { status: 404, body: {} }
    if (path !== '/' && request.headers['apikey'] !== env.ANON_KEY) return { status: 401, body: {} }
    return rest({ ...request, path })
  }

/** The data of the bench with its policies, in a zone that is not that of the bench. */
async function data(t: Test): Promise<{ client: pg.Client; waiting: Waiting }> {
  const { url, drop } = await freshDatabase()
  const client = new pg.Client({ connectionString: url, options: '-c timezone=Asia/Kolkata' })
  client.on('error', () => {})
  await client.connect()
  await loadData(client, SIZE)
  await createPolicies(client)
  t.teardown(async () => {
    for (const role of ['bench_user', 'bench_token']) await client.query(`drop owned by ${role}; drop role ${role}`)
    const ended = once(client, 'end')
    await client.end()
    await ended
    await drop()
  })
  return { client, waiting: { databaseUrl: url, size: SIZE, env, waitMs: 1, progress: () => {} } }
}
