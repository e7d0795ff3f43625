import fc from 'fast-check'

/**
 * Properties are tried on the same values each time, so that a test that fails has found what changed. Another
 * `ROWHOUSE_PROPERTY_SEED` tries others.
 */
fc.configureGlobal({ seed: Number(process.env['ROWHOUSE_PROPERTY_SEED'] ?? 1) })

export default fc
