import type { Mailbox } from './contracts.js'

interface Recipients {
  readonly to: Mailbox
  readonly cc?: readonly Mailbox[]
  readonly bcc?: readonly Mailbox[]
}

/** Returns an address in the form in which addresses are compared: servers and APIs ignore the case. */
export const comparable = (address: string): string => address.toLowerCase()

/**
 * Returns a mail in which no address occurs twice: of several, the first in `to`, `cc` and `bcc` stays. Some APIs refuse
 * such a mail, and others send it twice.
 */
export function withoutDuplicates<M extends Recipients>(mail: M): M {
  const seen = new Set<string>([comparable(mail.to.address)])
  const isNew = ({ address }: Mailbox) => seen.size < seen.add(comparable(address)).size
  const [cc, bcc] = [mail.cc?.filter(isNew), mail.bcc?.filter(isNew)]
  if (cc?.length === mail.cc?.length && bcc?.length === mail.bcc?.length) return mail
  return { ...mail, ...(cc ? { cc } : {}), ...(bcc ? { bcc } : {}) }
}

/** Returns the addresses of a mail that its provider is to send to. */
export function recipientsOf({ only, ...mail }: Recipients & { readonly only?: readonly string[] }): readonly string[] {
  const { to, cc = [], bcc = [] } = withoutDuplicates(mail)
  const all = [to, ...cc, ...bcc].map(({ address }) => address)
  if (only === undefined) return all
  const wanted = new Set(only.map(comparable))
  return all.filter((address) => wanted.has(comparable(address)))
}
