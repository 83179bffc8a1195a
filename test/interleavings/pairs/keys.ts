import { randomBytes } from 'node:crypto'
import { findContact } from '../../../src/billing/accounts/account-rows.ts'
import { saveAccount } from '../../../src/billing/accounts/save-account.ts'
import type { BillingApp } from '../../../src/billing/app.ts'
import { reseal } from '../../../src/billing/reseal.ts'
import { openVault, type Vault } from '../../../src/platform/vault/vault.ts'
import { type Pair, unless } from '../pair.ts'

const fresh = openVault([{ version: 2, key: randomBytes(32) }])

/** A process that knows the new key and uses it first. */
function withNewKey(app: BillingApp): BillingApp {
  const vault: Vault = {
    ...fresh,
    open: (sealed, row) => (fresh.isCurrent(sealed) ? fresh : app.vault).open(sealed, row),
  }
  return { ...app, vault, quietVault: vault }
}

export const resealContact: Pair = {
  name: 'reseal-contact',
  fact: 'what changes while everything is sealed anew stays as it was changed, and is sealed with the new key',
  async open(stage) {
    const accountId = stage.newAccount()
    const told = (name: string) => ({ accountId, contact: { name }, actor: 'test' })
    await saveAccount(stage.app, told('Before'))
    return {
      accountId,
      A: ({ app }) => reseal(withNewKey(app)),
      async B({ app }) {
        await saveAccount(withNewKey(app), told('Meanwhile'))
        await saveAccount(withNewKey(app), told('After'))
      },
      async check() {
        const { db, vault } = withNewKey(stage.app)
        const { name } = await findContact(db, vault, accountId)
        const { rows } = await stage.app.pool.query<{ sealed: Buffer }>(
          'select sealed from billing.account_contact where account_id = $1',
          [accountId],
        )
        return [
          ...unless(name === 'After', `the contact is ${name}`),
          ...unless(fresh.isCurrent(rows[0]!.sealed), 'it is still sealed with the old key'),
        ]
      },
    }
  },
}
