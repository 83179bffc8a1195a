import { existsSync } from 'node:fs'
import type { HistoryLine } from '../billing/audit/export-history.ts'
import { installationId } from '../billing/audit/history-rows.ts'
import { isCalendarStopped } from '../billing/charging-stop-rows.ts'
import { applyHistory } from '../billing/reconciliation/apply-history.ts'
import { readChain } from '../platform/chained-file.ts'
import { explainBroken } from './audit-export.ts'
import { CommandFailed, parseFlags, print, printJson, printTable, UsageError, withApp } from './command.ts'
import { openProgress } from './progress.ts'

/** Brings back what a restored database has forgotten. Nothing is changed unless the whole file is sound. */
export async function applyHistoryCommand(args: string[]): Promise<number> {
  const { values, positionals } = parseFlags(args, { json: { type: 'boolean', default: false } })
  const [path, ...more] = positionals
  if (path === undefined || more.length > 0) throw new UsageError('audit apply takes one file.')
  if (!existsSync(path)) throw new CommandFailed('There is no such file.')
  return withApp('audit', async (app) => {
    const lines: HistoryLine[] = []
    let owner: unknown
    let through = 'never'
    const end = await readChain(path, (line) => {
      if (line['kind'] === 'begin') owner = line['installation']
      else if (line['kind'] === 'end') through = String(line['at'])
      else lines.push(line as HistoryLine)
    }).catch(explainBroken)
    if (!end.closed)
      throw new CommandFailed(
        'The file was cut off: it does not end where an export ended. Use a whole copy.',
      )
    if (owner !== (await installationId(app.billing.db)))
      throw new CommandFailed(
        'This file belongs to another installation, so it says nothing about this database.',
      )
    if (!(await isCalendarStopped(app.billing.db)))
      throw new CommandFailed('Charging is not stopped; run `rankledger db stop-charging` first.')

    const progress = openProgress('Facts applied', null)
    const done = await applyHistory(app.billing, lines, 'operator', (count) => progress.show(count))
    progress.end()
    if (values.json) printJson({ ...done, lines: end.lines, through })
    else {
      const { cancellations, resumptions, erasures, trials, tokens, cards, lost } = done
      print(`The file holds what was known at ${through}; what happened after that is not in it.`)
      print(
        `Brought back: ${cancellations} cancellations, ${resumptions} resumptions, ${erasures} erasures, ${trials} used trials, ${tokens} revoked tokens.`,
      )
      if (cards.length > 0) {
        print(
          `${cards.length} subscriptions changed their payment method; the new one is lost and the old one is not charged:`,
        )
        printTable(
          ['SUBSCRIPTION'],
          cards.map((one) => [one]),
        )
      }
      if (lost.length > 0) {
        print(`${lost.length} subscriptions began after the backup and cannot come back:`)
        printTable(
          ['SUBSCRIPTION', 'ACCOUNT'],
          lost.map(({ subscription, account }) => [subscription, account]),
        )
      }
    }
    return 0
  })
}
