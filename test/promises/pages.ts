import { readdirSync, readFileSync } from 'node:fs'

const ROOT = new URL('../../../', import.meta.url)

/** The pages that tell users what the API does: those in these folders. */
export const API_PAGES: readonly string[] = [
  'core/http',
  'plugins/console',
  'plugins/filestore',
  'plugins/graphql',
  'plugins/notify',
  'plugins/query',
  'plugins/template',
].flatMap((folder) =>
  readdirSync(new URL(folder, ROOT))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name}`),
)

/** What a page promises below a heading: rows of tables by their first cell, and sentences with "must". */
export interface Section {
  readonly heading: string
  readonly rows: readonly string[]
}

/** @param page path from the root of the repository */
export function sectionsOf(page: string): readonly Section[] {
  const text = readFileSync(new URL(page, ROOT), 'utf8')
  const [, ...parts] = `\n${text.replaceAll(/^```[^]*?^```$/gm, '')}`.split(/\n#+ /)
  return parts.map((part) => {
    const [heading = '', ...lines] = part.split('\n')
    return { heading, rows: [...rowsOf(lines), ...mustsOf(lines)] }
  })
}

/** The first cells of tables, without the row of names and the line below it. */
function rowsOf(lines: readonly string[]): string[] {
  const isRow = (line: string | undefined) => line?.startsWith('|') ?? false
  return lines.flatMap((line, i) => {
    const isHead = !isRow(lines[i - 1])
    if (!isRow(line) || isHead || /^[|\s:-]+$/.test(line)) return []
    return [line.split(/(?<!\\)\|/)[1]?.trim() ?? '']
  })
}

function mustsOf(lines: readonly string[]): string[] {
  const prose = lines.filter((line) => !line.startsWith('|')).map((line) => line.replace(/^\s*([-*]|\d+\.) /, '\n'))
  const paragraphs = prose
    .map((line) => (line === '' ? '\n' : line))
    .join(' ')
    .split(/\n+/)
  const sentences = paragraphs.flatMap((each) =>
    each
      .replaceAll(/\s+/g, ' ')
      .trim()
      .split(/(?<=[.;:]\)?) (?=[A-Z`*(])/),
  )
  return sentences.filter((each) => /\bmust\b/.test(each))
}
