import { Alert, Button, SegmentedControl, Skeleton, Text } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { client, dataOf } from '../api/client.ts'
import { useMay, useSession } from '../api/session.ts'
import { useFilters } from '../ui/filters.ts'
import { useAge, useMoney, useNumber } from '../ui/formats.ts'
import { useSay, useStateName } from '../ui/language.tsx'
import { Empty, Loaded } from '../ui/load-parts.tsx'
import { Card, Figure, PageHead } from '../ui/page-parts.tsx'
import { Money, Status, To, When } from '../ui/value-parts.tsx'

const DayChart = lazy(async () => ({ default: (await import('../ui/charts.tsx')).DayChart }))

type Billing = Awaited<ReturnType<typeof fetchBilling>>
const fetchBilling = () => dataOf(client.GET('/api/billing/summary'))

export function Overview() {
  const say = useSay()
  const may = useMay()
  const billing = useQuery({
    queryKey: ['billing-summary'],
    queryFn: fetchBilling,
    refetchInterval: 15_000,
    enabled: may('billing:read'),
  })
  return (
    <>
      <PageHead title={say('overview')} note={billing.data && <When at={billing.data.as_of} />} />
      {may('billing:read') && (
        <Loaded query={billing} rows={10}>
          {(data) => <BillingPart data={data} />}
        </Loaded>
      )}
      {may('batch:read') && <BatchPart />}
    </>
  )
}

function BillingPart({ data }: { data: Billing }) {
  const say = useSay()
  const number = useNumber()
  const age = useAge()
  const money = useMoney()
  const { mode } = useSession()
  const may = useMay()
  const { subscriptions: states, churn, unknown, webhooks } = data
  const total = Object.values(states).reduce((sum, count) => sum + count, 0)
  if (total === 0)
    return (
      <div className="rl-card">
        <Empty title={say('emptyOverview')} hint={say('emptyOverviewHint')}>
          {mode === 'sandbox' && may('admin') && (
            <Button component={Link} to="/sandbox" mt="sm">
              {say('toSandbox')}
            </Button>
          )}
        </Empty>
      </div>
    )
  return (
    <div className="rl-stack">
      {data.charging_stopped && <Alert color="red">{say('chargingStopped')}</Alert>}
      <div className="rl-grid">
        <Figure
          label={say('activeSubscriptions')}
          value={number(states['active'] ?? 0)}
          note={<StateLine states={states} />}
          to="/subscriptions?status=active"
        />
        <Figure
          label={say('monthlyRevenue')}
          value={
            data.monthly_revenue.length === 0
              ? '–'
              : data.monthly_revenue.map((one) => (
                  <div key={one.currency}>
                    <Money {...one} />
                  </div>
                ))
          }
          to="/invoices?status=paid"
        />
        <Figure
          label={say('churn')}
          value={number(churn.rate, { style: 'percent', maximumFractionDigits: 1 })}
          note={say('churnNote', { ended: churn.ended, all: churn.ended + churn.live })}
          to="/subscriptions?status=canceled"
        />
        <Figure
          label={say('unknownPayments')}
          value={number(unknown.payments + unknown.refunds)}
          note={
            unknown.payments + unknown.refunds === 0
              ? say('unknownNone')
              : say('unknownNote', {
                  payments: unknown.payments,
                  refunds: unknown.refunds,
                  age: age(unknown.oldest_seconds),
                })
          }
          to="/invoices?status=open"
        />
        {webhooks && (
          <Figure
            label={say('webhookLag')}
            value={age(webhooks.lag_seconds)}
            note={say('webhookNote', { waiting: webhooks.waiting, failed: webhooks.failed })}
            to="/webhooks"
          />
        )}
      </div>
      <Revenue data={data} />
      <div className="rl-grid-wide">
        <Card title={say('failing')} action={<To to="/subscriptions?status=past_due">{say('pastDue')}</To>}>
          {data.failing.length === 0 ? (
            <Text size="sm" c="dimmed">
              {say('failingNone')}
            </Text>
          ) : (
            <table className="rl-table">
              <tbody>
                {data.failing.map(({ code, currency, invoices, amount }) => (
                  <tr key={code + currency}>
                    <td>{code.replaceAll('_', ' ')}</td>
                    <td data-end>{number(invoices)}</td>
                    <td data-end>
                      <Money amount={amount} currency={currency} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </Card>
        <Card title={say('upcoming')}>
          <UpcomingLines data={data} money={money} />
        </Card>
      </div>
    </div>
  )
}

function StateLine({ states }: { states: Record<string, number> }) {
  const name = useStateName()
  const number = useNumber()
  const others = Object.entries(states).filter(([state, count]) => state !== 'active' && count > 0)
  return (
    <>{others.map(([state, count]) => `${number(count)} ${name(state).toLowerCase()}`).join(' · ') || ' '}</>
  )
}

function UpcomingLines({
  data,
  money,
}: {
  data: Billing
  money: (amount: number, currency: string) => string
}) {
  const say = useSay()
  const sums = new Map<string, { charges: number; amount: number }>()
  for (const { currency, charges, amount } of data.upcoming) {
    const sum = sums.get(currency) ?? { charges: 0, amount: 0 }
    sums.set(currency, { charges: sum.charges + charges, amount: sum.amount + amount })
  }
  if (sums.size === 0)
    return (
      <Text size="sm" c="dimmed">
        {say('none')}
      </Text>
    )
  return (
    <div className="rl-grid">
      {[...sums].map(([currency, { charges, amount }]) => (
        <div key={currency}>
          <div className="rl-number">{money(amount, currency)}</div>
          <Text size="xs" c="dimmed">
            {say('charges', { count: charges })}
          </Text>
        </div>
      ))}
    </div>
  )
}

function Revenue({ data }: { data: Billing }) {
  const say = useSay()
  const money = useMoney()
  const [{ currency: wanted }, setFilters] = useFilters()
  const currencies = [...new Set(data.days.map(({ currency }) => currency))].sort()
  const currency = currencies.find((one) => one === wanted) ?? currencies[0]
  const scale =
    currency === undefined
      ? 1
      : 10 **
        (new Intl.NumberFormat('en', { style: 'currency', currency }).resolvedOptions()
          .maximumFractionDigits ?? 2)
  const rows = daysBetween(data.from, data.to).map((day) => {
    const one = data.days.find((each) => each.day === day && each.currency === currency)
    return { day: day.slice(5), paid: (one?.paid ?? 0) / scale, refunded: (one?.refunded ?? 0) / scale }
  })
  return (
    <Card
      title={say('revenueByDay')}
      action={
        currencies.length > 1 && (
          <SegmentedControl
            size="xs"
            data={currencies}
            value={currency}
            onChange={(one) => setFilters({ currency: one })}
            aria-label={say('currency')}
          />
        )
      }
    >
      {currency === undefined ? (
        <Text size="sm" c="dimmed">
          {say('none')}
        </Text>
      ) : (
        <Suspense fallback={<Skeleton h={220} />}>
          <DayChart
            label={say('revenueByDay')}
            data={rows}
            series={[
              { name: 'paid', label: say('paid'), color: 'indigo.5' },
              { name: 'refunded', label: say('refunded'), color: 'orange.5' },
            ]}
            format={(value) => money(Math.round(value * scale), currency)}
          />
        </Suspense>
      )}
    </Card>
  )
}

function daysBetween(from: string, to: string): string[] {
  const days: string[] = []
  for (let at = Date.parse(from); at <= Date.parse(to); at += 86_400_000)
    days.push(new Date(at).toISOString().slice(0, 10))
  return days
}

function BatchPart() {
  const say = useSay()
  const number = useNumber()
  const query = useQuery({
    queryKey: ['batch-summary'],
    queryFn: () => dataOf(client.GET('/api/batch/summary')),
    refetchInterval: 30_000,
  })
  return (
    <div style={{ marginTop: 14 }}>
      <Loaded query={query} rows={2}>
        {(data) => {
          const last = (task: string) => data.last_runs.find((run) => run.task === task)
          const runFigure = (word: 'lastAggregation' | 'lastTraining', task: string) => {
            const run = last(task)
            return (
              <Figure
                label={say(word)}
                value={
                  run ? (
                    <span style={{ fontSize: '1.05rem' }}>
                      <Status of={run.status} />
                    </span>
                  ) : (
                    say('never')
                  )
                }
                note={run && <When at={run.finished_at ?? run.queued_at} />}
                to="/training"
              />
            )
          }
          const model = data.active_model
          const holdout = model?.metrics['holdout'] as { log_loss: number } | undefined
          const quality = model?.live_quality?.log_loss ?? holdout?.log_loss
          return (
            <div className="rl-grid">
              <Figure
                label={say('keywordsRegistered')}
                value={number(data.keywords)}
                note={data.workspaces.slice(0, 3).join(', ')}
                to="/keywords"
              />
              {runFigure('lastAggregation', 'aggregate_volumes')}
              {runFigure('lastTraining', 'train_classifier')}
              <Figure
                label={say('activeModel')}
                value={model ? `v${model.version}` : '–'}
                note={
                  model
                    ? `${String(model.algorithm['name'])} · ${say('logLoss')} ${number(quality ?? 0, { maximumFractionDigits: 3 })}`
                    : say('noModel')
                }
                to={model ? `/models/${model.model_id}` : '/training'}
              />
            </div>
          )
        }}
      </Loaded>
    </div>
  )
}
