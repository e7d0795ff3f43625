import type { PluginCommand } from 'rowhouse'
import type { FilestoreConfig } from '../config.js'
import { compare } from './compare.js'
import { isClean, jsonOf, textOf } from './report.js'

/** `rowhouse fsck` */
export const fsck: PluginCommand<FilestoreConfig> = {
  name: 'fsck',
  summary: 'are the bytes of all files there, and nothing else?',
  usage: 'rowhouse fsck [--deep] [--fix] [--json] [--config FILE]',
  help: `Compares what the database knows of stored files with what the stores hold. Servers may go on meanwhile. Bytes that
are suspicious are read and compared with their SHA-256; what is found is kept: a damaged file is not served until it is
found whole. Ends with 0 when all is well, 1 when something is not or could not be looked at, 2 when called wrongly.

  --deep          read the bytes of all files
  --fix           take away bytes that no file has, and uploads that were given up; no file is ever deleted
  --json          the result as one JSON object`,
  flags: { deep: 'boolean', fix: 'boolean', json: 'boolean' },
  async run(context, { collect }) {
    const { deep, fix, json } = context.flags
    const report = await compare(context, { deep: deep === true, fix: fix === true, ...collect })
    if (json === true) context.print(jsonOf(report))
    else for (const line of textOf(report)) context.print(line)
    return isClean(report) ? 0 : 1
  },
}
