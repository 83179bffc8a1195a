import { type AuditEntry, type AuditTables, listAudit } from '../platform/access/audit-rows.ts'
import { openDb } from '../platform/database/db.ts'
import { parseInstant, renderInstant } from '../platform/time.ts'
import { parseFlags, print, printJson, printTable, UsageError, withFoundation } from './command.ts'

const mostLines = 10_000

export async function listAuditCommand(args: string[]): Promise<number> {
  const { values, positionals } = parseFlags(args, {
    actor: { type: 'string' },
    action: { type: 'string' },
    account: { type: 'string' },
    target: { type: 'string' },
    from: { type: 'string' },
    to: { type: 'string' },
    limit: { type: 'string', default: '50' },
    json: { type: 'boolean', default: false },
  })
  if (positionals.length > 0) throw new UsageError('audit list takes flags only.')
  const limit = Number(values.limit)
  if (!Number.isInteger(limit) || limit < 1 || limit > mostLines)
    throw new UsageError(`--limit takes a whole number from 1 to ${mostLines}.`)
  const from = readTime('--from', values.from)
  const to = readTime('--to', values.to)
  return withFoundation('audit', async (app) => {
    const { items } = await listAudit(
      openDb<AuditTables>(app.pool),
      {
        ...(values.actor !== undefined && { actor: values.actor }),
        ...(values.action !== undefined && { action: values.action }),
        ...(values.account !== undefined && { accountId: values.account }),
        ...(values.target !== undefined && { target: values.target }),
        ...(from && { from }),
        ...(to && { to }),
      },
      { limit },
    )
    const time = (entry: AuditEntry) => renderInstant(entry.at, app.config.timeZone)
    if (values.json) {
      printJson({
        entries: items.map((one) => ({
          audit_id: String(one.id),
          at: time(one),
          actor: one.actor,
          action: one.action,
          account_id: one.accountId,
          target: one.target,
        })),
      })
    } else if (items.length === 0) print('Nothing was found.')
    else {
      printTable(
        ['AT', 'ACTOR', 'ACTION', 'ACCOUNT', 'TARGET'],
        items.map((one) => [time(one), one.actor, one.action, one.accountId ?? '-', one.target]),
      )
    }
    return 0
  })
}

function readTime(flag: string, text: string | undefined): Date | undefined {
  if (text === undefined) return undefined
  const at = parseInstant(text)
  if (!at) throw new UsageError(`${flag} takes an instant with an offset such as 2026-11-15T09:00:00+09:00.`)
  return at
}
