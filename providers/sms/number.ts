import type { Sms } from 'rowhouse'

/** Returns calling code and national number as digits: E.164 without the plus sign. */
export const digits = ({ countryCode, to }: Pick<Sms, 'countryCode' | 'to'>): string => countryCode + to
