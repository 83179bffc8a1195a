import { Button } from '@mantine/core'
import { useState } from 'react'
import { client, dataOf } from '../api/client.ts'
import { asked, useList } from '../api/lists.ts'
import { useMay } from '../api/session.ts'
import { FilterBar, StatusFilter, TextFilter } from '../ui/filter-bar.tsx'
import { useFilters } from '../ui/filters.ts'
import { useSay } from '../ui/language.tsx'
import { Empty } from '../ui/load-parts.tsx'
import { PageHead } from '../ui/page-parts.tsx'
import { SubscribeForm } from '../ui/subscribe-form.tsx'
import { type Column, List } from '../ui/table.tsx'
import { Id, Money, Status, To, When } from '../ui/value-parts.tsx'

const states = ['incomplete', 'trialing', 'active', 'past_due', 'canceling', 'canceled'] as const
type State = (typeof states)[number]

const fetchPage = (query: { account_id?: string; status?: State }) => (cursor: string | undefined) =>
  dataOf(
    client.GET('/api/billing/subscriptions', { params: { query: asked({ ...query, cursor, limit: 25 }) } }),
  )
type Row = Awaited<ReturnType<ReturnType<typeof fetchPage>>>['subscriptions'][number]

export function useSubscriptionColumns(): Column<Row>[] {
  const say = useSay()
  return [
    {
      head: say('account'),
      cell: (row) => <To to={`/subscriptions/${row.subscription_id}`}>{row.account_id}</To>,
    },
    { head: say('status'), cell: (row) => <Status of={row.status} /> },
    { head: say('plan'), cell: (row) => row.plan_id, wide: true },
    { head: say('amount'), cell: (row) => <Money amount={row.amount} currency={row.currency} />, end: true },
    { head: say('nextCharge'), cell: (row) => <When at={row.next_billing_at} day />, wide: true },
    {
      head: say('paymentMethod'),
      cell: (row) =>
        row.payment_method
          ? `${row.payment_method.brand} ··${row.payment_method.last4}`
          : say('noPaymentMethod'),
      wide: true,
    },
    { head: 'ID', cell: (row) => <Id of={row.subscription_id} />, wide: true },
  ]
}

export function Subscriptions() {
  const say = useSay()
  const may = useMay()
  const [filters] = useFilters()
  const [opened, setOpened] = useState(false)
  const status = states.find((one) => one === filters.status)
  const query = useList(
    ['subscriptions', status, filters.account],
    fetchPage({ status, account_id: filters.account }),
    { everyMs: 20_000 },
  )
  const columns = useSubscriptionColumns()
  return (
    <>
      <PageHead title={say('subscriptions')}>
        {may('billing:write') && (
          <Button size="xs" onClick={() => setOpened(true)}>
            {say('newSubscription')}
          </Button>
        )}
      </PageHead>
      <FilterBar>
        <StatusFilter states={states} />
        <TextFilter name="account" label={say('accountId')} />
      </FilterBar>
      <div className="rl-card">
        <List
          label={say('subscriptions')}
          query={query}
          rowsOf={(page) => page.subscriptions}
          columns={columns}
          keyOf={(row) => row.subscription_id}
          empty={<Empty title={say('noSubscriptions')} />}
        />
      </div>
      <SubscribeForm opened={opened} onClose={() => setOpened(false)} />
    </>
  )
}

export function Trials() {
  const say = useSay()
  const may = useMay()
  const [opened, setOpened] = useState(false)
  const query = useList(['trials'], fetchPage({ status: 'trialing' }), { everyMs: 20_000 })
  const columns: Column<Row>[] = [
    {
      head: say('account'),
      cell: (row) => <To to={`/subscriptions/${row.subscription_id}`}>{row.account_id}</To>,
    },
    { head: say('plan'), cell: (row) => row.plan_id },
    { head: say('trialEnds'), cell: (row) => <When at={row.trial_ends_at} day /> },
    {
      head: say('paymentMethod'),
      cell: (row) =>
        row.payment_method
          ? `${row.payment_method.brand} ··${row.payment_method.last4}`
          : say('noPaymentMethod'),
      wide: true,
    },
    {
      head: say('amount'),
      cell: (row) => <Money amount={row.amount} currency={row.currency} />,
      end: true,
      wide: true,
    },
  ]
  return (
    <>
      <PageHead title={say('trials')}>
        {may('billing:write') && (
          <Button size="xs" onClick={() => setOpened(true)}>
            {say('startTrial')}
          </Button>
        )}
      </PageHead>
      <div className="rl-card">
        <List
          label={say('trials')}
          query={query}
          rowsOf={(page) => page.subscriptions}
          columns={columns}
          keyOf={(row) => row.subscription_id}
          empty={<Empty title={say('noTrials')} />}
        />
      </div>
      <SubscribeForm opened={opened} onClose={() => setOpened(false)} trial />
    </>
  )
}
