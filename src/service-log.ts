import type { Config } from './config.ts'
import { logEvents } from './log-events.ts'
import { readDatabaseUrl } from './platform/database/database-url.ts'
import { createLog, type Log, outputTo } from './platform/log/log.ts'
import { createSecretSet, type SecretSet } from './platform/log/secret-set.ts'

export type ServiceLog = Log<typeof logEvents>

type OpenedLog = { readonly log: ServiceLog; readonly secrets: SecretSet }
const opened = new WeakMap<Config, OpenedLog>()

/**
 * Opens the log first, so that whatever goes wrong afterwards is said through it. One configuration has one log: the
 * guard of the process's output must know the secrets that are made or found later. Whoever opens it first says where its
 * lines go: to standard output, unless that is for a command's result.
 */
export function openLog(config: Config, output: 'stdout' | 'stderr' = 'stdout'): OpenedLog {
  const known = opened.get(config)
  if (known) return known
  const made = makeLog(config, output)
  opened.set(config, made)
  return made
}

function makeLog(config: Config, output: 'stdout' | 'stderr'): OpenedLog {
  const secrets = createSecretSet()
  for (const secret of [
    config.bootstrapToken,
    config.hintSecret,
    ...config.providers.flatMap(({ secretKey, webhookSecrets }) => [secretKey, ...webhookSecrets]),
    ...config.sources.flatMap(({ credentials: { host: _, ...secret } }) => Object.values(secret)),
  ]) {
    if (secret) secrets.add(secret)
  }
  for (const { key } of config.vaultKeys) secrets.add(key.toString('base64'))
  for (const url of [config.databaseUrl, config.databaseUrlSession, config.databaseUrlRead]) {
    const password = url && readDatabaseUrl(url).password
    if (password) secrets.add(password)
  }
  return {
    log: createLog(logEvents, { level: config.logLevel, secrets, destination: outputTo(output) }),
    secrets,
  }
}
