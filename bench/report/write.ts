import { writeFile } from 'node:fs/promises'
import type { Result } from '../result.js'
import { page } from './page.js'

/**
 * Writes the report of a result: one file of HTML that needs nothing else.
 * @param kept earlier results, the oldest first
 * @returns where it is
 */
export async function writeReport(result: Result, kept: readonly Result[], file: string): Promise<string> {
  await writeFile(file, page(result, kept))
  return file
}
