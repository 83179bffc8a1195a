import Type from 'typebox'
import { envelope, nullable, page, success } from '../../platform/http/answers.ts'
import { AccountId } from '../../platform/http/fields.ts'
import type { Http } from '../../platform/http/http.ts'
import { callerIdPattern } from '../../platform/id.ts'
import { limitOf, pageOf, pageQuery, readCursor } from '../../platform/page.ts'
import { renderInstant } from '../../platform/time.ts'
import type { BillingApp } from '../app.ts'
import { noteRead } from '../audit/audit-rows.ts'
import { refuse } from '../refusals.ts'
import { languages } from '../seller.ts'
import { tenantOf } from '../tenancy.ts'
import { ContactBody, requireZone, TimeZone } from './account.ts'
import { type Account, findAccount, findContact, listAccounts } from './account-rows.ts'
import { type SavedAccount, saveAccount } from './save-account.ts'

const AccountView = Type.Object(
  {
    account_id: Type.String(),
    timezone: Type.String(),
    language: nullable(Type.String({ description: "en or ko, of its invoices; null: the installation's" })),
    customer: Type.Object({ email: nullable(Type.String()), name: nullable(Type.String()) }),
    created_at: Type.String(),
    erased_at: nullable(Type.String()),
  },
  { title: 'Account' },
)

const { customer: _, ...listedFields } = AccountView.properties
const ListedAccount = Type.Object(listedFields)

export function accountRoutes(http: Http, app: BillingApp): void {
  http.get(
    '/api/billing/accounts',
    {
      config: { access: 'billing:read' },
      schema: {
        operationId: 'listAccounts',
        summary: 'Accounts by id, without the people behind them',
        tags: ['billing'],
        querystring: Type.Object(
          {
            q: Type.Optional(Type.String({ maxLength: 64, description: 'How the id begins' })),
            ...pageQuery,
          },
          { additionalProperties: false },
        ),
        response: { 200: page('accounts', ListedAccount) },
      },
    },
    async (request) => {
      const { q } = request.query
      const only = tenantOf(request.principal, undefined)
      const limit = limitOf(request.query)
      const after = readCursor(request.query, 1)?.[0]
      const isSought = q === undefined || q === '' || callerIdPattern.test(q)
      const rows = isSought
        ? await listAccounts(app.db, { only, prefix: q || undefined, after, limit: limit + 1 })
        : []
      const { items, nextCursor } = pageOf(rows, limit, ({ accountId }) => [accountId])
      return envelope({ accounts: items.map(listed), next_cursor: nextCursor })
    },
  )

  http.get(
    '/api/billing/accounts/:account_id',
    {
      config: { access: 'billing:read' },
      schema: {
        operationId: 'getAccount',
        summary: 'An account: its zone and contact',
        tags: ['billing'],
        params: Type.Object({ account_id: Type.String() }),
        errors: refuse.may('account_not_found'),
        response: { 200: success(AccountView) },
      },
    },
    async (request) => {
      const { account_id } = request.params
      const account = callerIdPattern.test(account_id) ? await findAccount(app.db, account_id) : undefined
      if (!account) throw refuse('account_not_found')
      await noteRead(app.db, {
        at: app.clock(),
        actor: request.principal.tokenId,
        action: 'account.read',
        accountId: account_id,
        target: account_id,
      })
      return envelope(viewOf({ ...account, contact: await findContact(app.db, app.vault, account_id) }))
    },
  )

  http.put(
    '/api/billing/accounts/:account_id',
    {
      config: { access: 'billing:write' },
      schema: {
        operationId: 'saveAccount',
        summary: 'Make or change an account',
        tags: ['billing'],
        params: Type.Object({ account_id: AccountId }),
        body: Type.Object(
          {
            timezone: Type.Optional(TimeZone),
            language: Type.Optional(Type.Union([Type.Enum([...languages]), Type.Null()])),
            customer: Type.Optional(ContactBody),
          },
          { additionalProperties: false },
        ),
        response: { 200: success(AccountView) },
      },
    },
    async (request) => {
      const { timezone, language, customer } = request.body
      requireZone(timezone)
      const saved = await saveAccount(app, {
        accountId: request.params.account_id,
        actor: request.principal.tokenId,
        ...(timezone !== undefined && { timeZone: timezone }),
        ...(language !== undefined && { language }),
        ...(customer !== undefined && { contact: customer }),
      })
      return envelope(viewOf(saved))
    },
  )
}

function listed({ accountId, timeZone, language, createdAt, erasedAt }: Account) {
  return {
    account_id: accountId,
    timezone: timeZone,
    language,
    created_at: renderInstant(createdAt, timeZone),
    erased_at: erasedAt && renderInstant(erasedAt, timeZone),
  }
}

function viewOf(account: SavedAccount) {
  const { accountId, timeZone, language, contact, createdAt, erasedAt } = account
  return {
    account_id: accountId,
    timezone: timeZone,
    language,
    customer: { email: contact.email ?? null, name: contact.name ?? null },
    created_at: renderInstant(createdAt, timeZone),
    erased_at: erasedAt && renderInstant(erasedAt, timeZone),
  }
}
