import { randomBytes } from 'node:crypto'
import type { BillingApp } from './billing/app.ts'
import { findSealedBy } from './billing/reseal.ts'
import type { Config } from './config.ts'
import type { Foundation } from './foundation.ts'
import { keepSecret } from './platform/data-dir.ts'
import { openVault, type VaultKey, watchfulVault } from './platform/vault/vault.ts'
import { admitVaultKeys, openInstallationKey } from './platform/vault/vault-keys.ts'

/** Opens the vault, once it is clear that its keys fit what the database holds sealed. */
export async function openKeys({
  config,
  pool,
  billing,
  secrets,
}: Foundation): Promise<Pick<BillingApp, 'vault' | 'quietVault' | 'fingerprintKey'>> {
  const keys = vaultKeysOf(config)
  await admitVaultKeys(pool, keys, (versions) => findSealedBy(billing.db, versions))
  for (const { key } of keys) secrets.add(key.toString('base64'))
  const vault = openVault(keys)
  return {
    vault: watchfulVault(vault, secrets),
    quietVault: vault,
    fingerprintKey: await openInstallationKey(pool, vault, 'fingerprint'),
  }
}

function vaultKeysOf(config: Config): readonly [VaultKey, ...VaultKey[]] {
  const [newest, ...older] = config.vaultKeys
  if (newest) return [newest, ...older]
  const kept = keepSecret(config.dataDir, 'vault-key', randomKey)
  return [{ version: 1, key: Buffer.from(kept, 'base64') }]
}

/** Signs and verifies the sandbox's notifications where none is given; every process of a data dir has the same. */
export function keepWebhookSecret({ dataDir }: Config): string {
  return keepSecret(dataDir, 'webhook-secret', () => `whsec_${randomKey()}`)
}

function randomKey(): string {
  return randomBytes(32).toString('base64')
}
