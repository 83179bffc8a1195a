import { checkLedger as check } from '../billing/ledger/check-ledger.ts'
import { type Command, parseOnlyFlags, print, printJson, printTable, withFoundation } from './command.ts'

export const checkLedger: Command = {
  summary: 'Recompute every total from the ledger, and list what does not add up',
  usage: `rankledger check-ledger [--json]

Every transfer sums to zero, payments and refunds equal their transfers, invoices equal their payments, invoice numbers
have no gaps. Exit 0 if all of that holds, 1 with a list if not. It reads one snapshot and changes nothing.`,

  async run(args) {
    const { values } = parseOnlyFlags(args, { json: { type: 'boolean', default: false } })
    return withFoundation('check-ledger', async ({ billing }) => {
      const { transfers, faults } = await check(billing.db)
      if (values.json) {
        printJson({
          transfers,
          faults: faults.map((fault) => ({
            ...fault,
            expected: String(fault.expected),
            actual: String(fault.actual),
          })),
        })
      } else if (faults.length === 0) print(`${transfers} transfers: everything adds up.`)
      else {
        print(`${transfers} transfers; ${faults.length} things do not add up:`)
        printTable(
          ['CHECK', 'OF', 'EXPECTED', 'FOUND'],
          faults.map(({ check, subject, expected, actual }) => [
            check,
            subject,
            String(expected),
            String(actual),
          ]),
        )
      }
      return faults.length === 0 ? 0 : 1
    })
  },
}
