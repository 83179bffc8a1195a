import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { openVault, type Vault, type VaultKey } from './vault.ts'

/**
 * Refuses VAULT_KEYS with which this database cannot be read, before anything is served: another key under a known
 * number, or one left out while values are still sealed with it. `findSealedBy` names a place that holds such values.
 */
export async function admitVaultKeys(
  pool: pg.Pool,
  keys: readonly VaultKey[],
  findSealedBy: (versions: readonly number[]) => Promise<string | undefined>,
): Promise<void> {
  // What is refused leaves nothing behind.
  await judgeVaultKeys(pool, keys, findSealedBy)
  for (const key of keys) {
    await pool.query(
      'insert into platform.vault_key (version, probe) values ($1, $2) on conflict (version) do nothing',
      [key.version, openVault([key]).seal(probeText, placeOf(key))],
    )
  }
  // Another process may have been first, with another key.
  const retired = await judgeVaultKeys(pool, keys, findSealedBy)
  if (retired.length === 0) return
  // Nothing is left that they sealed, so nobody has to look again.
  await pool.query('delete from platform.vault_key where version = any ($1)', [retired])
}

/** The same refusals for whoever only looks. Gives back the keys that are left out and seal nothing any more. */
export async function judgeVaultKeys(
  pool: pg.Pool,
  keys: readonly VaultKey[],
  findSealedBy: (versions: readonly number[]) => Promise<string | undefined>,
): Promise<readonly number[]> {
  for (const key of keys) {
    const { rows } = await pool.query<{ probe: Buffer }>(
      'select probe from platform.vault_key where version = $1',
      [key.version],
    )
    if (rows[0] && !opens(openVault([key]), rows[0].probe, placeOf(key)))
      throw new VaultKeysRefused(wrongKey(key.version))
  }
  const unlisted = await findUnlisted(pool, keys)
  if (unlisted.length === 0) return []
  const place = await findSealedBy(unlisted)
  if (place !== undefined) throw new VaultKeysRefused(missingKey(unlisted, place))
  return unlisted
}

function placeOf({ version }: VaultKey): string {
  return `probe:${version}`
}

class VaultKeysRefused extends Error {
  override readonly name = 'VaultKeysRefused'
}

const probeText = 'rankledger'

function opens(vault: Vault, probe: Buffer, place: string): boolean {
  try {
    return vault.open(probe, place) === probeText
  } catch {
    return false
  }
}

async function findUnlisted(pool: pg.Pool, keys: readonly VaultKey[]): Promise<number[]> {
  const { rows } = await pool.query<{ version: number }>(
    'select version from platform.vault_key where version <> all ($1) order by version',
    [keys.map(({ version }) => version)],
  )
  return rows.map(({ version }) => version)
}

function wrongKey(version: number): string {
  return `Key ${version} in VAULT_KEYS is not the one that this database was sealed with; put the right one back, or, where none was ever set, the file vault-key of the data dir.`
}

function missingKey(versions: readonly number[], place: string): string {
  return `VAULT_KEYS lacks key ${versions.join(' and ')}, with which values in ${place} are sealed; list it behind the first, and run \`rankledger db rotate-keys\` before it goes.`
}

/** A random key of this installation: made by whoever comes first, the same for everybody, sealed in the database. */
export async function openInstallationKey(pool: pg.Pool, vault: Vault, name: string): Promise<Buffer> {
  const known = await findInstallationKey(pool, vault, name)
  if (known) return known
  await pool.query('insert into platform.secret (name, sealed) values ($1, $2) on conflict do nothing', [
    name,
    vault.seal(randomBytes(32).toString('base64'), `secret:${name}`),
  ])
  return (await findInstallationKey(pool, vault, name))!
}

/** That key, if somebody has made it. */
export async function findInstallationKey(
  pool: pg.Pool,
  vault: Vault,
  name: string,
): Promise<Buffer | undefined> {
  const { rows } = await pool.query<{ sealed: Buffer }>(
    'select sealed from platform.secret where name = $1',
    [name],
  )
  return rows[0] && Buffer.from(vault.open(rows[0].sealed, `secret:${name}`), 'base64')
}
