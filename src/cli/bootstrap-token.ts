import { join } from 'node:path'
import type { App } from '../app.ts'
import { scopes } from '../platform/access/access.ts'
import { isToken, newToken, tokenIdOf } from '../platform/access/token.ts'
import { findToken, insertToken, revokeOtherBootstraps, revokeToken } from '../platform/access/token-rows.ts'
import { keepSecret, writeSecret } from '../platform/data-dir.ts'
import { isLoopback } from '../platform/loopback.ts'

/**
 * The first token: from the environment, or made on the first start where nobody else can reach the service. Another
 * BOOTSTRAP_TOKEN than before takes the place of the former one; a process that still brings the former changes nothing.
 */
export async function bootstrapToken(app: App): Promise<BootstrapToken | undefined> {
  const { config } = app
  const own = config.mode === 'sandbox' && isLoopback(config.host)
  const token =
    config.bootstrapToken ??
    (own
      ? keepSecret(
          config.dataDir,
          'token',
          () => newToken('test'),
          (text) => isToken(text, 'test'),
        )
      : undefined)
  if (token === undefined) return undefined
  app.secrets.add(token)
  const isNew = await insertToken(app.pool, token, {
    name: 'bootstrap',
    scopes,
    workspace: '*',
    account: '*',
    createdAt: app.clock(),
    createdBy: config.bootstrapToken === undefined ? 'data dir' : 'bootstrap',
    expiresAt: null,
  })
  if (config.bootstrapToken !== undefined && isNew) await revokeOtherBootstraps(app.pool, token, app.clock())
  if (!own) return undefined
  const isReplaced = !isNew && (await findToken(app.pool, tokenIdOf(token)))?.revokedAt
  if (config.bootstrapToken !== undefined && !isReplaced) {
    const before = writeSecret(config.dataDir, 'token', token)
    if (before !== undefined) await revokeToken(app.pool, tokenIdOf(before), app.clock(), 'service')
  }
  return { token, file: join(config.dataDir, 'token') }
}

export type BootstrapToken = { readonly token: string; readonly file: string }
