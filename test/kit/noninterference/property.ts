import { Random } from '../oracle/generate.js'
import type { Used } from './conditions.js'
import type { Document } from './documents.js'
import { type Era, generateEra } from './permissions.js'
import { type Case, generateCase, generateTemplates } from './requests.js'
import { shrink } from './shrink.js'
import { type Answer, difference, startTwins } from './twins.js'
import { type Content, generateContent } from './worlds.js'
import type { Generator } from './writes.js'

/** Two worlds that a role cannot tell apart answered differently. */
export interface Difference {
  /** What is different, without values. */
  readonly kind: string
  readonly number: number
  readonly test: Case
  readonly answers: readonly [Answer, Answer]
  readonly era: Era
  /** How often it was seen. */
  count: number
}
export interface Result {
  readonly differences: readonly Difference[]
  /** Answers by door, those with status 200 apart. */
  readonly answers: Readonly<Record<string, { good: number; all: number }>>
  readonly used: Used
}

export interface Options {
  readonly cases: number
  readonly seed: number
  /** Goes on after the first difference, and tells one of each kind. */
  readonly all: boolean
  progress(text: string): void
}

const PER_ERA = 1000
const PER_FILL = 200
/** How many requests are read ahead of the writes among them: worlds in which writes overtake each other grow apart. */
const PART = 50
const AT_ONCE = 8

export async function tryProperty(
  t: { teardown(fn: () => Promise<void>): unknown },
  { cases, seed, all, progress }: Options,
): Promise<Result> {
  const twins = await startTwins(t)
  const random = new Random(seed)
  const used: Used = new Set()
  const found = new Map<string, Difference>()
  const answers: Record<string, { good: number; all: number }> = {}
  /** Is not sent again. */
  const refused = new Set<Case | Document>()
  let written = 10_000
  const stop = () => !all && found.size > 0

  for (let done = 0; done < cases && !stop(); done += PER_ERA) {
    const era = generateEra(random)
    const templates = generateTemplates(random, era)
    await twins.begin(era, templates)
    const generator: Generator = { random, era, templates, used, reads: [], documents: [], nextId: () => written++ }
    for (let from = done; from < Math.min(done + PER_ERA, cases) && !stop(); from += PER_FILL) {
      const content = generateContent(random, era)
      await twins.fill(content)
      const tests = Array.from({ length: Math.min(PER_FILL, cases - from) }, () => generateCase(generator))
      await inTurn(tests, (test, i) => tryCase(test, from + i, content, era))
      generator.reads = generator.reads.filter((test) => !refused.has(test))
      generator.documents = generator.documents.filter((document) => !refused.has(document))
    }
    progress(`${Math.min(done + PER_ERA, cases)} cases, ${found.size} kinds of differences`)
  }
  return { differences: [...found.values()], answers, used }

  async function tryCase(test: Case, number: number, content: Content, era: Era): Promise<void> {
    if (stop()) return
    const both = await twins.ask(test, number)
    const count = (answers[test.door] ??= { good: 0, all: 0 })
    count.all++
    if (both[0].status < 300 && !both[0].body.startsWith('{"errors"')) count.good++
    else {
      refused.add(test)
      if (test.document && UNREADABLE.test(both[0].body)) refused.add(test.document)
    }
    const differs = difference(...both, test.listed)
    if (differs === undefined) return
    const kind = `${test.door}: ${differs}`
    const before = found.get(kind)
    if (before) before.count++
    else {
      const seen: Difference = { kind, number, test, answers: both, era, count: 1 }
      found.set(kind, seen)
      const small = await shrink(seen, async (smaller) => {
        if (test.writes) await twins.fill(content)
        return twins.ask(smaller, number)
      })
      found.set(kind, { ...small, count: seen.count })
    }
    // What only one of them did would show in all that follows.
    if (test.writes) await twins.fill(content)
  }
}

/** How a document is refused, whatever its variables are. */
const UNREADABLE = /Cannot query|does not exist in|Unknown type|is not defined by/

/**
 * Of each part the reads side by side, then each write alone, in their order.
 * @param fn is told a test and its place
 */
async function inTurn(tests: readonly Case[], fn: (test: Case, i: number) => Promise<void>): Promise<void> {
  for (let from = 0; from < tests.length; from += PART) {
    const part = [...tests.entries()].slice(from, from + PART)
    const reads = part.filter(([, { writes }]) => !writes)
    const lanes = Array.from({ length: AT_ONCE }, async () => {
      for (let next = reads.shift(); next; next = reads.shift()) await fn(next[1], next[0])
    })
    await Promise.all(lanes)
    for (const [i, test] of part) if (test.writes) await fn(test, i)
  }
}
