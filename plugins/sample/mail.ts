import type { Host } from 'rowhouse'
import { MARK } from './schema.js'

/** The name of the mail template, which its messages carry, too. */
export const TEMPLATE_NAME = 'order_late'
export const SENDER = 'shop@example.com'

const TEMPLATE = {
  subject: 'Your order {{ order }} is late',
  text: `Hello {{ name }},

your order {{ order }} was due on {{ due_on }}, and we have not shipped it yet. We are sorry, and send it as soon as we can.

Your shop
`,
  comment: `${MARK}to the customer of a late order.`,
}

/** The customer with the late order of the story in the README. */
const LATE = `
select orders.id::text as "order", name, email, due_on::text as due_on
from orders join customer on customer.id = customer_id where orders.id = 46455`

/** Stores a mail template and sends one mail with it, if mail is caught. Without it, the shop is complete as well. */
export async function sendMail(host: Host<'data', 'notify'>): Promise<void> {
  const notify = host.find('notify')
  if (!notify || host.providerName('email') === undefined) return
  try {
    if ((await host.provider('email')).catches !== true) return
    await notify.putTemplate(TEMPLATE_NAME, TEMPLATE)
    const [late] = await host.use('data').query<Record<'order' | 'name' | 'email' | 'due_on', string>>(LATE)
    if (!late) return
    const { email, ...content } = late
    await notify.emailTemplate({
      fromEmail: SENDER,
      to: email,
      templateName: TEMPLATE_NAME,
      templateContent: Object.entries(content).map(([name, value]) => ({ name, content: value })),
    })
  } catch (error) {
    host.use('log').warn({ err: error }, 'the mail of the sample shop could not be sent')
  }
}
