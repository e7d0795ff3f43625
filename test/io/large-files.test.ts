import t from 'tap'
import { readLarge, sendLarge } from '../kit/large-file.js'
import { testServer } from '../kit/server.js'

const MIB = 2 ** 20

t.test('files of any size go up and down as they are', async (t) => {
  const server = await testServer(t, { files: true, config: { dataDir: t.testdir({}) } })
  for (const size of [0, 1, MIB - 1, 5 * MIB, 64 * MIB]) {
    const hash = await sendLarge(server.url, 'f', size)
    t.match(await readLarge(server.url, 'f'), { status: 200, size, etag: hash, hash }, `${size} bytes`)
  }
})
