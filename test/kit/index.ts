/** Contract suites for providers, for any test runner: run the cases in order, on a store or on the stage of a sender. */
export type { ContractCase } from './contract/case.js'
export { emailContract } from './contract/email.js'
export { eventContract } from './contract/event.js'
export { smsContract } from './contract/sms.js'
export {
  type Fault,
  httpStage,
  type HttpStageOptions,
  type Stage,
  type TakenEvent,
  type TakenMail,
  type TakenSms,
} from './contract/stage.js'
export { storageContract } from './contract/storage.js'
