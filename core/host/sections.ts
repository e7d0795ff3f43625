import { idempotencyConfig } from '../data/idempotency.js'
import { limitsConfig } from '../data/request-limits.js'
import { checkDatabase, databaseConfig } from '../db/config.js'
import { checkAuth, checkHttp } from '../http/check-config.js'
import { authConfig, httpConfig } from '../http/config.js'
import type { Schema } from '../json/schema.js'
import { setting } from '../json/setting.js'
import { LEVELS } from '../observe/log-lines.js'
import type { Checks } from './config.js'

const { advanced, amount, choice, count } = setting

const logConfig = {
  type: 'object',
  default: {},
  properties: {
    level: choice([...LEVELS, 'silent'], 'info', 'Minimum level of the log lines to write.'),
  },
} as const satisfies Schema

const compileConfig = {
  type: 'object',
  default: {},
  advanced: true,
  properties: {
    threads: amount(1, 'Number of worker threads that compile requests. 0 compiles in the main thread.'),
    timeoutMs: count(250, 'Maximum CPU time of one compilation. Longer compilations fail with 503.'),
  },
} as const satisfies Schema

/** Schemas of the configuration sections. */
export const sections = {
  database: { ...databaseConfig, default: {} },
  http: httpConfig,
  auth: authConfig,
  log: logConfig,
  compile: compileConfig,
  limits: limitsConfig,
  idempotency: idempotencyConfig,
  dataDir: { type: 'string', default: './.rowhouse', description: 'Folder for the files of this server.' },
  fast: advanced.flag(true, 'Enables the fast paths. Disable it to check whether one of them causes a problem.'),
  shutdownTimeoutMs: {
    ...count(
      30_000,
      'Maximum duration of a shutdown, including the drain. When it expires, the server logs the unfinished steps and exits with code 1.',
    ),
    maximum: 3_600_000,
  },
} as const satisfies Readonly<Record<string, Schema>>

/** Checks that the schemas cannot express. */
export const checks: Checks<typeof sections> = { http: checkHttp, auth: checkAuth, database: checkDatabase }
