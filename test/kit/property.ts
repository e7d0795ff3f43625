import fc from 'fast-check'

/**
 * Properties are tried on the same values each time, so that a test that fails has found what changed. Another
 * `ROWHOUSE_PROPERTY_SEED` tries others.
 */
fc.configureGlobal({ seed: Number(process.env['ROWHOUSE_PROPERTY_SEED'] ?? 1) })

/** The share of the usual cases that random tests try: a fifth in `npm test`, all in `npm run test:full`. */
export const TEST_SHARE = 'ROWHOUSE_TEST_SHARE'

/**
 * Returns how many cases a random test tries.
 * @param usual number of cases of `npm run test:full`
 * @param variable name of a variable of the environment that gives another number
 */
export const cases = (usual: number, variable?: string): number =>
  Number((variable && process.env[variable]) ?? Math.ceil(usual * Number(process.env[TEST_SHARE] ?? 1)))

export default fc
