import Type from 'typebox'
import { Compile } from 'typebox/compile'
import type { JsonAnswer } from '../../../platform/fetch-json.ts'
import { parseInstant } from '../../../platform/time.ts'
import { refusesCredentials } from './toss-refusals.ts'

export type Transaction = {
  readonly transactionKey: string
  readonly paymentKey: string
  readonly status: string
  readonly at: Date
}
export type Transactions =
  | { kind: 'page'; transactions: readonly Transaction[] }
  | { kind: 'credentials_refused' }
  | { kind: 'unknown' }

const isTransactions = Compile(
  Type.Array(
    Type.Object({
      transactionKey: Type.String({ minLength: 1 }),
      paymentKey: Type.String({ minLength: 1 }),
      status: Type.String(),
      transactionAt: Type.String(),
    }),
  ),
)

export function transactionsOutcome(answer: JsonAnswer): Transactions {
  if (refusesCredentials(answer)) return { kind: 'credentials_refused' }
  if (answer.kind !== 'answered' || answer.status !== 200 || !isTransactions.Check(answer.body))
    return { kind: 'unknown' }
  const transactions: Transaction[] = []
  for (const { transactionKey, paymentKey, status, transactionAt } of answer.body) {
    const at = parseInstant(transactionAt)
    if (!at) return { kind: 'unknown' }
    transactions.push({ transactionKey, paymentKey, status, at })
  }
  return { kind: 'page', transactions }
}
