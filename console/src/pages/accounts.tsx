import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { client, dataOf } from '../api/client.ts'
import { asked, useList } from '../api/lists.ts'
import { FilterBar, TextFilter } from '../ui/filter-bar.tsx'
import { useFilters } from '../ui/filters.ts'
import { useSay } from '../ui/language.tsx'
import { Empty, Loaded } from '../ui/load-parts.tsx'
import { Card, Facts, PageHead } from '../ui/page-parts.tsx'
import { List } from '../ui/table.tsx'
import { To, When } from '../ui/value-parts.tsx'
import { useInvoiceColumns } from './invoices.tsx'
import { useSubscriptionColumns } from './subscriptions.tsx'

export function Accounts() {
  const say = useSay()
  const [{ q }] = useFilters()
  const query = useList(['accounts', q], (cursor) =>
    dataOf(client.GET('/api/billing/accounts', { params: { query: asked({ q, cursor, limit: 25 }) } })),
  )
  return (
    <>
      <PageHead title={say('accounts')} />
      <FilterBar>
        <TextFilter name="q" label={say('idBegins')} />
      </FilterBar>
      <div className="rl-card">
        <List
          label={say('accounts')}
          query={query}
          rowsOf={(page) => page.accounts}
          keyOf={(row) => row.account_id}
          empty={<Empty title={say('noAccounts')} />}
          columns={[
            {
              head: say('account'),
              cell: (row) => <To to={`/accounts/${encodeURIComponent(row.account_id)}`}>{row.account_id}</To>,
            },
            { head: say('timezone'), cell: (row) => row.timezone },
            { head: say('created'), cell: (row) => <When at={row.created_at} day />, wide: true },
            { head: say('erased'), cell: (row) => <When at={row.erased_at} day />, wide: true },
          ]}
        />
      </div>
    </>
  )
}

export function Account() {
  const say = useSay()
  const { id } = useParams({ strict: false }) as { id: string }
  const query = useQuery({
    queryKey: ['account', id],
    queryFn: () =>
      dataOf(client.GET('/api/billing/accounts/{account_id}', { params: { path: { account_id: id } } })),
  })
  const subscriptions = useList(['subscriptions-of', id], (cursor) =>
    dataOf(
      client.GET('/api/billing/subscriptions', {
        params: { query: asked({ account_id: id, cursor, limit: 10 }) },
      }),
    ),
  )
  const invoices = useList(['invoices-of-account', id], (cursor) =>
    dataOf(
      client.GET('/api/billing/invoices', {
        params: { query: asked({ account_id: id, cursor, limit: 10 }) },
      }),
    ),
  )
  const subscriptionColumns = useSubscriptionColumns()
  const invoiceColumns = useInvoiceColumns({ withoutAccount: true })
  return (
    <>
      <PageHead title={id} note={say('account')} />
      <Loaded query={query} rows={4}>
        {(account) => (
          <div className="rl-stack">
            <Card>
              <Facts
                of={[
                  [say('name'), account.customer.name ?? '–'],
                  [say('email'), account.customer.email ?? '–'],
                  [say('timezone'), account.timezone],
                  [say('created'), <When key="c" at={account.created_at} />],
                  ...(account.erased_at
                    ? [[say('erased'), <When key="e" at={account.erased_at} />] as const]
                    : []),
                ]}
              />
            </Card>
            <Card title={say('subscriptions')} flush>
              <List
                label={say('subscriptions')}
                query={subscriptions}
                rowsOf={(page) => page.subscriptions}
                columns={subscriptionColumns}
                keyOf={(row) => row.subscription_id}
                empty={<Empty title={say('noSubscriptions')} />}
              />
            </Card>
            <Card title={say('invoices')} flush>
              <List
                label={say('invoices')}
                query={invoices}
                rowsOf={(page) => page.invoices}
                columns={invoiceColumns}
                keyOf={(row) => row.invoice_id}
                empty={<Empty title={say('noInvoices')} />}
              />
            </Card>
          </div>
        )}
      </Loaded>
    </>
  )
}
