import { pathToFileURL } from 'node:url'

/**
 * `node build/test/group.js NAME FILE...`: runs test files one after the other in one process, because a process costs more
 * than a server. What a file leaves to the end of its tests is done before the next one begins.
 */
// Tap names folders after the arguments.
const files = process.argv.splice(3)
const { default: t } = await import('tap')
const ends: (() => unknown)[] = []
// Tap itself would wait until all files have run.
t.teardown = (fn: () => unknown) => void ends.push(fn)

for (const file of files) {
  t.comment(file)
  await import(pathToFileURL(file).href)
  // Subtests run in turn, so this one comes after those of the file.
  await t.test(`the end of ${file}`, async () => {})
  for (const end of ends.splice(0).reverse()) await end()
}
t.end()
