import { pino } from 'pino'
import { builtins } from '../../core/cli/builtins.js'
import type { ProviderKinds } from '../../core/host/contracts.js'
import type { Provider } from '../../core/host/plugin.js'
import { validate } from '../../core/host/validate.js'

/** A provider that comes with the program, made of settings as a configuration has them: checked, defaults filled in. */
export async function makeProvider<K extends keyof ProviderKinds>(
  kind: K,
  name: string,
  settings: object,
): Promise<ProviderKinds[K]> {
  const module = (await import(String(builtins().providers[kind]?.[name]))) as { default: Provider<K> }
  const config = validate(module.default.config ?? { type: 'object' }, { ...settings })
  if (!config.ok) throw new Error(JSON.stringify(config.issues))
  return module.default.create(config.value as never, { log: pino({ level: 'silent' }), dataDir: '/nowhere' })
}
