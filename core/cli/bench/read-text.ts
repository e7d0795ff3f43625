import { readFile } from 'node:fs/promises'

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'this is a folder, not a file',
  EACCES: 'this file may not be read',
}

/**
 * A file that somebody named.
 * @throws Error that says what is wrong with it; also when there is nothing in it
 */
export async function readText(file: string): Promise<string> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new Error(`${file}: ${REASONS[error.code ?? ''] ?? error.message}`, { cause: error })
  })
  if (text.trim() === '') throw new Error(`${file} is empty`)
  return text
}
