import { jsonIn, valueAt } from '../../answer.js'

/**
 * Error codes that concern this message. Others concern credentials, rate, account or sender.
 * @see the pages of Twilio's error dictionary
 */
const REFUSED = new Set([
  21211, // "To" is no valid number
  21214, // "To" cannot be reached
  21217, // not a number
  21421, // not a number
  21602, // no body
  21604, // no "To"
  21605, // body too long
  21610, // the reader has unsubscribed
  21614, // "To" is no mobile number
  21617, // body too long
  21619, // no body
  21635, // "To" is a landline
])

/** Returns whether an error response rejects the message permanently. */
export const isRefused = (text: string): boolean => REFUSED.has(Number(valueAt(jsonIn(text), 'code')))
