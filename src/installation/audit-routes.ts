import Type, { type Static } from 'typebox'
import type { App } from '../app.ts'
import { type AuditEntry, type AuditTables, listAudit } from '../platform/access/audit-rows.ts'
import { openDb } from '../platform/database/db.ts'
import { envelope, nullable, page } from '../platform/http/answers.ts'
import { AccountId } from '../platform/http/fields.ts'
import type { Http } from '../platform/http/http.ts'
import { invalidField } from '../platform/http/validation.ts'
import { pageQuery } from '../platform/page.ts'
import { parseInstant, renderInstant } from '../platform/time.ts'

const common = { config: { access: 'admin' as const } }
const strict = { additionalProperties: false }
const tags = ['operations']

const AuditView = Type.Object(
  {
    audit_id: Type.String(),
    at: Type.String(),
    actor: Type.String({ description: "A token's id, operator, or service" }),
    action: Type.String(),
    account_id: nullable(Type.String()),
    target: Type.String(),
  },
  { title: 'AuditEntry' },
)

/** Who asked for what, over the whole installation. */
export function auditRoutes(http: Http, app: App): void {
  const db = openDb<AuditTables>(app.pool)
  const Word = Type.String({ maxLength: 128, pattern: '^[\\x21-\\x7e]+$' })
  const view = (entry: AuditEntry): Static<typeof AuditView> => ({
    audit_id: String(entry.id),
    at: renderInstant(entry.at, app.config.timeZone),
    actor: entry.actor,
    action: entry.action,
    account_id: entry.accountId,
    target: entry.target,
  })
  const instant = (path: string, text: string): Date => {
    const at = parseInstant(text)
    if (!at)
      throw invalidField(path, 'This takes an instant with an offset such as 2026-11-15T09:00:00+09:00.')
    return at
  }

  http.get(
    '/api/audit',
    {
      ...common,
      schema: {
        operationId: 'listAudit',
        summary: 'Who asked for what, and who read whose personal data, newest first',
        tags,
        querystring: Type.Object(
          {
            actor: Type.Optional(Word),
            action: Type.Optional(Word),
            account_id: Type.Optional(AccountId),
            target: Type.Optional(Word),
            from: Type.Optional(Type.String({ maxLength: 64 })),
            to: Type.Optional(Type.String({ maxLength: 64 })),
            ...pageQuery,
          },
          strict,
        ),
        response: { 200: page('entries', AuditView) },
      },
    },
    async (request) => {
      const { actor, action, account_id, target, from, to, ...paging } = request.query
      const found = await listAudit(
        db,
        {
          ...(actor !== undefined && { actor }),
          ...(action !== undefined && { action }),
          ...(account_id !== undefined && { accountId: account_id }),
          ...(target !== undefined && { target }),
          ...(from !== undefined && { from: instant('from', from) }),
          ...(to !== undefined && { to: instant('to', to) }),
        },
        paging,
      )
      return envelope({ entries: found.items.map(view), next_cursor: found.nextCursor })
    },
  )
}
