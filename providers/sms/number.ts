import type { Sms } from 'rowhouse'

/** Calling code and national number, digits only: E.164 without its plus sign. */
export const digits = ({ countryCode, to }: Pick<Sms, 'countryCode' | 'to'>): string => countryCode + to
