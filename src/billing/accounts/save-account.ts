import type { BillingApp } from '../app.ts'
import { type Actor, insertAudit } from '../audit/audit-rows.ts'
import type { Language } from '../seller.ts'
import {
  type Account,
  type Contact,
  ensureAccount,
  findAccount,
  findContact,
  putContact,
  unerase,
  updateLanguage,
  updateTimeZone,
} from './account-rows.ts'

export type AccountChange = {
  accountId: string
  timeZone?: string
  language?: Language | null
  contact?: Contact
  actor: Actor
}

export type SavedAccount = Account & { readonly contact: Contact }

/** Makes or changes an account. What is not named stays; a contact is replaced as a whole. */
export async function saveAccount(app: BillingApp, change: AccountChange): Promise<SavedAccount> {
  const now = app.clock()
  const { accountId } = change
  await app.db.transaction().execute(async (tx) => {
    await ensureAccount(tx, accountId, change.timeZone ?? app.terms.timeZone, now)
    if (change.timeZone !== undefined) await updateTimeZone(tx, accountId, change.timeZone)
    if (change.language !== undefined) await updateLanguage(tx, accountId, change.language)
    if (change.contact !== undefined) {
      await unerase(tx, accountId)
      await putContact(tx, app.vault, accountId, change.contact, now)
    }
    await insertAudit(tx, {
      at: now,
      actor: change.actor,
      action: 'account.save',
      accountId,
      target: accountId,
    })
  })
  const account = (await findAccount(app.db, accountId))!
  return { ...account, contact: await findContact(app.db, app.vault, accountId) }
}
