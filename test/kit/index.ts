/** Contract suites for providers, for any test runner: run each case in order on one provider. */
export type { ContractCase } from './contract/case.js'
export { emailContract } from './contract/email.js'
export { smsContract } from './contract/sms.js'
export { storageContract } from './contract/storage.js'
