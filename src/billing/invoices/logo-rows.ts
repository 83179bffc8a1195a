import { createHash } from 'node:crypto'
import type { BillingDb } from '../app.ts'

export function logoHash(logo: Uint8Array): string {
  return createHash('sha256').update(logo).digest('hex')
}

/** Keeps the picture that the invoices issued from now on will name. */
export async function keepLogo(db: BillingDb, logo: Buffer): Promise<void> {
  await db
    .insertInto('billing.seller_logo')
    .values({ sha256: logoHash(logo), content: logo })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

export async function findLogo(db: BillingDb, sha256: string): Promise<Buffer | null> {
  const row = await db
    .selectFrom('billing.seller_logo')
    .select('content')
    .where('sha256', '=', sha256)
    .executeTakeFirst()
  return row?.content ?? null
}
