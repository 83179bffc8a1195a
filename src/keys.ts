import { randomBytes } from 'node:crypto'
import type { BillingApp } from './billing/app.ts'
import { findSealedBy } from './billing/reseal.ts'
import type { Config } from './config.ts'
import type { Foundation } from './foundation.ts'
import { keepSecret, readSecret } from './platform/data-dir.ts'
import type { SecretSet } from './platform/log/secret-set.ts'
import { openVault, type VaultKey, watchfulVault } from './platform/vault/vault.ts'
import {
  admitVaultKeys,
  findInstallationKey,
  judgeVaultKeys,
  openInstallationKey,
} from './platform/vault/vault-keys.ts'
import { signsMessages } from './settings/provider-settings.ts'

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

export type KeysFound = {
  readonly hasVaultKey: boolean
  readonly hasInstallationKey: boolean
  readonly webhookSecrets: number
}

/** What a start would find, with the refusals that it would meet. Nothing is made or stored. */
export async function lookAtKeys({ config, pool, billing, secrets }: Foundation): Promise<KeysFound> {
  const [newest, ...older] = findVaultKeys(config)
  const keys = newest ? [newest, ...older] : []
  for (const { key } of keys) secrets.add(key.toString('base64'))
  await judgeVaultKeys(pool, keys, (versions) => findSealedBy(billing.db, versions))
  const known = newest && (await findInstallationKey(pool, openVault([newest, ...older]), 'fingerprint'))
  return {
    hasVaultKey: newest !== undefined,
    hasInstallationKey: known !== undefined,
    webhookSecrets: countWebhookSecrets(config, secrets),
  }
}

function countWebhookSecrets({ provider, dataDir }: Config, secrets: SecretSet): number {
  if (provider.webhookSecrets.length > 0 || !signsMessages(provider.name))
    return provider.webhookSecrets.length
  const kept = readSecret(dataDir, 'webhook-secret')
  if (kept) secrets.add(kept)
  return kept ? 1 : 0
}

function vaultKeysOf(config: Config): readonly [VaultKey, ...VaultKey[]] {
  const [newest, ...older] = findVaultKeys(config)
  return newest ? [newest, ...older] : [keyOf(keepSecret(config.dataDir, 'vault-key', randomKey))]
}

/** Those of the environment, or the one that the data dir keeps. */
function findVaultKeys({ vaultKeys, dataDir }: Config): readonly VaultKey[] {
  if (vaultKeys.length > 0) return vaultKeys
  const kept = readSecret(dataDir, 'vault-key')
  return kept === undefined ? [] : [keyOf(kept)]
}

function keyOf(kept: string): VaultKey {
  return { version: 1, key: Buffer.from(kept, 'base64') }
}

/** Signs and verifies the sandbox's notifications where none is given; every process of a data dir has the same. */
export function keepWebhookSecret({ dataDir }: Config): string {
  return keepSecret(dataDir, 'webhook-secret', () => `whsec_${randomKey()}`)
}

function randomKey(): string {
  return randomBytes(32).toString('base64')
}
