import { existsSync } from 'node:fs'
import type { HistoryLine } from '../billing/audit/export-history.ts'
import { installationId } from '../billing/audit/history-rows.ts'
import { isCalendarStopped } from '../billing/charging-stop-rows.ts'
import { type AppliedHistory, applyHistory } from '../billing/reconciliation/apply-history.ts'
import { readChain } from '../platform/chained-file.ts'
import { renderInstant } from '../platform/time.ts'
import { explainBroken } from './audit-export.ts'
import { CommandFailed, parseFlags, print, printJson, printTable, UsageError, withApp } from './command.ts'
import { printFailed } from './print-failed.ts'
import { openProgress } from './progress.ts'

/**
 * Brings back what a restored database has forgotten. Nothing is changed unless the whole file is sound; of one that was cut
 * off the whole lines are applied once the operator has read what they lack.
 */
export async function applyHistoryCommand(args: string[]): Promise<number> {
  const { values, positionals } = parseFlags(args, {
    'cut-off': { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  })
  const [path, ...more] = positionals
  if (path === undefined || more.length > 0) throw new UsageError('audit apply takes one file.')
  if (!existsSync(path)) throw new CommandFailed('There is no such file.')
  return withApp('audit', async (app) => {
    const history = await readHistory(path, app.config.timeZone)
    if (history.length === 0)
      throw new CommandFailed('No line of the file is whole: it is empty, cut off, or another kind of file.')
    if (history.owner !== (await installationId(app.billing.db)))
      throw new CommandFailed(
        'This file belongs to another installation, so it says nothing about this database.',
      )
    if (history.cutAt !== null && !values['cut-off'])
      throw new CommandFailed(
        `The file was cut off at line ${history.cutAt}, in an export that never ended: it may lack what happened after ${history.through ?? 'its first line'}. ` +
          `Use a whole copy if there is one; else \`--cut-off\` applies the ${history.length} lines that are whole.`,
      )
    if (!(await isCalendarStopped(app.billing.db)))
      throw new CommandFailed('Charging is not stopped; run `rankledger db stop-charging` first.')

    const progress = openProgress('Facts applied', null)
    const done = await applyHistory(app.billing, history.facts, 'operator', (count) => progress.show(count))
    progress.end()
    const { length: lines, through, cutAt: cut_off_at_line } = history
    const { lostMethods: cards, lost, ...counts } = done
    if (values.json) printJson({ ...counts, cards, lost, lines, through, cut_off_at_line })
    else tell(history, done)
    return done.failed.length === 0 ? 0 : 1
  })
}

type History = {
  readonly facts: readonly HistoryLine[]
  /** Which installation's it is. */
  readonly owner: unknown
  /** Up to when it holds all that was known; null where no export into it ever ended. */
  readonly through: string | null
  /** How many facts an export wrote that never ended. */
  readonly beyond: number
  /** How many lines are whole. */
  readonly length: number
  readonly cutAt: number | null
}

async function readHistory(path: string, timeZone: string): Promise<History> {
  const facts: HistoryLine[] = []
  let owner: unknown
  let through: string | null = null
  let beyond = 0
  const end = await readChain(path, (line) => {
    if (line['kind'] === 'begin') owner = line['installation']
    else if (line['kind'] === 'end')
      [through, beyond] = [renderInstant(new Date(String(line['at'])), timeZone), 0]
    else {
      facts.push(line as HistoryLine)
      beyond++
    }
  }).catch(explainBroken)
  return { facts, owner, through, beyond, length: end.lines, cutAt: end.closed ? null : end.lines + 1 }
}

function tell({ through, beyond, cutAt }: History, done: AppliedHistory): void {
  const { cancellations, resumptions, erasures, trials, tokens, lostMethods, lost } = done
  if (cutAt !== null)
    print(
      `The file was cut off at line ${cutAt}: of what happened after ${through ?? 'its first line'} it holds ${beyond === 1 ? '1 fact' : `${beyond} facts`}, and nobody knows what it lacks.`,
    )
  else print(`The file holds what was known at ${through}; what happened after that is not in it.`)
  print(
    `Brought back: ${cancellations} cancellations, ${resumptions} resumptions, ${erasures} erasures, ${trials} used trials, ${tokens} ends of tokens.`,
  )
  if (lostMethods.length > 0) {
    print(
      `${lostMethods.length} subscriptions changed their payment method; the new one is lost and the old one is not charged:`,
    )
    printTable(
      ['SUBSCRIPTION'],
      lostMethods.map((one) => [one]),
    )
  }
  if (lost.length > 0) {
    print(`${lost.length} subscriptions began after the backup and cannot come back:`)
    printTable(
      ['SUBSCRIPTION', 'ACCOUNT'],
      lost.map(({ subscription, account }) => [subscription, account]),
    )
  }
  printFailed(done.failed, 'subscriptions and single facts could not be brought back')
}
