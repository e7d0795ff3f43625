/** JSON schema of a result file. */
const text = { type: 'string' } as const
const number = { type: 'number' } as const
const count = { type: 'integer', minimum: 0 } as const
const yes = { type: 'boolean' } as const
const share = { type: 'number', minimum: 0, maximum: 1 } as const
const list = (items: object) => ({ type: 'array', items })
const by = (values: object) => ({ type: 'object', additionalProperties: values })

/** An object of these properties only; those that are named behind may be missing. */
function object(properties: Readonly<Record<string, object>>, ...optional: readonly string[]) {
  const required = Object.keys(properties).filter((name) => !optional.includes(name))
  return { type: 'object', additionalProperties: false, required, properties }
}

const commit = object({ sha: text, changed: yes })
const ratio = {
  system: text,
  against: text,
  figure: text,
  at: number,
  pairs: count,
  median: number,
  low: number,
  high: number,
  lessIsBetter: yes,
  finding: { enum: ['better', 'worse', 'no proven difference', 'too few rounds', 'too noisy'] },
}
const target = { system: text, figure: text, against: text, at: number, least: number, most: number }
const targetOptional = ['against', 'at', 'least', 'most']
const cell = object(
  {
    system: text,
    round: count,
    at: number,
    figures: by(number),
    void: text,
  },
  'at',
  'void',
)
const section = object(
  {
    id: text,
    title: text,
    columns: by(text),
    compared: text,
    subjects: list(text),
    lessIsBetter: list(text),
    along: text,
    targets: list(object(target, ...targetOptional)),
    cells: list(cell),
    notMeasured: list(text),
    ratios: list(object(ratio, 'at')),
    verdicts: list(
      object(
        {
          ...target,
          beside: text,
          outcome: { enum: ['met', 'missed', 'not measured'] },
          median: number,
          low: number,
          high: number,
          rounds: count,
          isVoid: yes,
          proven: yes,
        },
        ...targetOptional,
        'rounds',
        'isVoid',
        'beside',
        'median',
        'low',
        'high',
      ),
    ),
  },
  'subjects',
  'lessIsBetter',
  'along',
  'targets',
)
const difference = object({ section: text, title: text, ratio: object(ratio, 'at') })

export const RESULT_SCHEMA = object(
  {
    format: { const: 2 },
    date: { type: 'string', pattern: String.raw`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$` },
    build: commit,
    machine: object(
      {
        cpus: count,
        model: text,
        memoryMiB: count,
        system: text,
        loadBefore: list(number),
        loadAfter: list(number),
        useBefore: share,
      },
      'useBefore',
    ),
    versions: by(text),
    settings: by(text),
    options: object({
      size: text,
      rounds: count,
      window: {
        anyOf: [
          object({ kind: { const: 'seconds' }, seconds: number }),
          object({ kind: { const: 'requests' }, requests: count }),
        ],
      },
      full: yes,
      peers: list(text),
      scenarios: list(text),
    }),
    tool: text,
    sections: list(section),
    notRun: list(object({ id: text, name: text, reason: text })),
    comparison: object({ ref: text, build: commit, differences: list(difference) }),
  },
  'comparison',
)
