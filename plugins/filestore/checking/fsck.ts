import type { PluginCommand } from 'rowhouse'
import type { FilestoreConfig } from '../config.js'
import { compare } from './compare.js'
import { isClean, jsonOf, linesOf } from './report.js'

/** `rowhouse fsck` */
export const fsck: PluginCommand<FilestoreConfig> = {
  name: 'fsck',
  summary: 'check that stored files have their bytes, and that nothing else is stored',
  usage: 'rowhouse fsck [--deep] [--fix] [--json] [--config FILE]',
  help: `Compares the database with the file stores; servers may keep running. Suspicious bytes are read and compared with
their SHA-256. The result is recorded: a damaged file is not served until a later check finds it intact. Exits with 0 when
all is well, 1 when a finding remains or a store could not be checked, 2 for a usage error.

  --deep          read the bytes of all files
  --fix           remove bytes that no file uses, and abandoned uploads; files are never deleted
  --json          print the result as one JSON object`,
  flags: { deep: 'boolean', fix: 'boolean', json: 'boolean' },
  async run(context, { collect }) {
    const { deep, fix, json } = context.flags
    const report = await compare(context, { deep: deep === true, fix: fix === true, ...collect })
    if (json === true) context.print(jsonOf(report))
    else for (const line of linesOf(report)) context.print(line)
    return isClean(report) ? 0 : 1
  },
}
