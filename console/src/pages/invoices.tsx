import { client, dataOf } from '../api/client.ts'
import { asked, useList } from '../api/lists.ts'
import { FilterBar, StatusFilter, TextFilter } from '../ui/filter-bar.tsx'
import { useFilters } from '../ui/filters.ts'
import { useSay } from '../ui/language.tsx'
import { Empty } from '../ui/load-parts.tsx'
import { PageHead } from '../ui/page-parts.tsx'
import { type Column, List } from '../ui/table.tsx'
import { Id, Money, Status, To, When } from '../ui/value-parts.tsx'

const states = ['open', 'paid', 'partially_refunded', 'refunded', 'uncollectible', 'void'] as const
type State = (typeof states)[number]

const fetchPage = (query: { account_id?: string; status?: State }) => (cursor: string | undefined) =>
  dataOf(client.GET('/api/billing/invoices', { params: { query: asked({ ...query, cursor, limit: 25 }) } }))
type Row = Awaited<ReturnType<ReturnType<typeof fetchPage>>>['invoices'][number]

export function useInvoiceColumns({ withoutAccount = false } = {}): Column<Row>[] {
  const say = useSay()
  const all: Column<Row>[] = [
    { head: say('number'), cell: (row) => <To to={`/invoices/${row.invoice_id}`}>{row.number}</To> },
    { head: say('account'), cell: (row) => row.account_id, wide: true },
    { head: say('status'), cell: (row) => <Status of={row.status} /> },
    { head: say('due'), cell: (row) => <Money amount={row.amount_due} currency={row.currency} />, end: true },
    {
      head: say('refunded'),
      cell: (row) =>
        row.amount_refunded > 0 ? <Money amount={row.amount_refunded} currency={row.currency} /> : '–',
      end: true,
      wide: true,
    },
    { head: say('issued'), cell: (row) => <When at={row.issued_at} day />, wide: true },
    { head: 'ID', cell: (row) => <Id of={row.invoice_id} />, wide: true },
  ]
  return all.filter(({ head }) => !withoutAccount || (head !== say('account') && head !== 'ID'))
}

export function Invoices() {
  const say = useSay()
  const [filters] = useFilters()
  const status = states.find((one) => one === filters.status)
  const query = useList(
    ['invoices', status, filters.account],
    fetchPage({ status, account_id: filters.account }),
    { everyMs: 20_000 },
  )
  const columns = useInvoiceColumns()
  return (
    <>
      <PageHead title={say('invoices')} />
      <FilterBar>
        <StatusFilter states={states} />
        <TextFilter name="account" label={say('accountId')} />
      </FilterBar>
      <div className="rl-card">
        <List
          label={say('invoices')}
          query={query}
          rowsOf={(page) => page.invoices}
          columns={columns}
          keyOf={(row) => row.invoice_id}
          empty={<Empty title={say('noInvoices')} />}
        />
      </div>
    </>
  )
}
