import { definePlugin } from 'rowhouse'
import { bench } from './command.js'

/** The command `rowhouse bench`. It measures a server from outside, so there is nothing to set up. */
export default definePlugin({ name: 'bench', database: false, commands: [bench], setup() {} })
