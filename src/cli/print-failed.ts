import type { Failed } from '../billing/reconciliation/isolate.ts'
import { print, printTable } from './command.ts'

/** Lists what could not be brought back into a restored database, if anything: the rest was, and the next run goes on there. */
export function printFailed(failed: readonly Failed[], what: string): void {
  if (failed.length === 0) return
  print(`${failed.length} ${what}; put them right and run this again:`)
  printTable(
    ['SUBJECT', 'ACCOUNT', 'REASON'],
    failed.map(({ subject, account, reason }) => [subject, account ?? '-', reason]),
  )
}
