import { weatherServer } from './weather.js'

const port = Number(process.argv[2] ?? 8091)
weatherServer().listen(port, '127.0.0.1', () => {
  process.stdout.write(`listening on http://127.0.0.1:${port}\n`)
})
