/** How many times slower than a quiet machine this one is, as the runner has measured it. */
export const PATIENCE = 'ROWHOUSE_TEST_PATIENCE'

/**
 * Returns a limit against hanging, longer on a slow or busy machine: no test fails because it is slow.
 * @param ms many times what a quiet machine needs
 */
export const patience = (ms: number): number => Math.ceil(ms * Math.max(1, Number(process.env[PATIENCE] ?? 1)))
