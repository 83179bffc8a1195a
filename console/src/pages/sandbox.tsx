import { Alert, Button, Checkbox, Group, Progress, Stack, Text } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { client, dataOf } from '../api/client.ts'
import { useAct } from '../ui/act.tsx'
import { useClock } from '../ui/clock-now.tsx'
import { useMoney, useTime } from '../ui/formats.ts'
import { useSay } from '../ui/language.tsx'
import { Empty, Loaded } from '../ui/load-parts.tsx'
import { Card, PageHead } from '../ui/page-parts.tsx'
import { SubscribeForm } from '../ui/subscribe-form.tsx'
import { Table } from '../ui/table.tsx'
import { Id, Money, Status, To } from '../ui/value-parts.tsx'
import { useTrigger } from './training.tsx'

const useDemo = () =>
  useQuery({
    queryKey: ['demo'],
    queryFn: () => dataOf(client.GET('/api/sandbox/demo')),
    refetchInterval: ({ state }) => (state.data?.status === 'running' ? 1_000 : 15_000),
  })

export function Sandbox() {
  const say = useSay()
  return (
    <>
      <PageHead title={say('sandbox')} note={say('sandboxMode')} />
      <div className="rl-stack">
        <div className="rl-split">
          <FirstVisit />
          <div className="rl-stack">
            <ClockCard />
            <FaultsCard />
          </div>
        </div>
        <Books />
      </div>
    </>
  )
}

function useAdvance() {
  return useAct((advance_by: string) => dataOf(client.POST('/api/sandbox/clock', { body: { advance_by } })))
}

function ClockCard() {
  const say = useSay()
  const time = useTime()
  const clock = useClock(3_000)
  const advance = useAdvance()
  const isMoving = advance.isPending || clock.data?.moving === true
  const steps = [
    ['P1D', 'day1'],
    ['P7D', 'week1'],
    ['P1M', 'month1'],
    ['P12M', 'year1'],
  ] as const
  return (
    <Card title={say('clock')} note={say('clockHint')}>
      <div className="rl-number" aria-live="polite" data-testid="clock">
        {clock.data ? time(clock.data.now) : '…'}
      </div>
      <Text size="xs" c="dimmed" h={18}>
        {isMoving ? say('moving') : clock.data?.now}
      </Text>
      <Group gap={6} mt={10}>
        {steps.map(([duration, word]) => (
          <Button
            key={duration}
            size="xs"
            variant="default"
            disabled={isMoving}
            onClick={() => advance.mutate(duration)}
          >
            {say(word)}
          </Button>
        ))}
      </Group>
    </Card>
  )
}

const fetchFaults = () => dataOf(client.GET('/api/sandbox/provider/faults'))
type FaultsInForce = Awaited<ReturnType<typeof fetchFaults>>['faults']

const switches = [
  { field: 'down', on: true, word: 'fault_down' },
  { field: 'timeout_after_rate', on: 1, word: 'fault_timeout_after' },
  { field: 'error_before_rate', on: 1, word: 'fault_error_before' },
  { field: 'webhook_drop_rate', on: 1, word: 'fault_webhook_drop' },
  { field: 'webhook_duplicate_rate', on: 1, word: 'fault_webhook_duplicate' },
] as const

function FaultsCard() {
  const say = useSay()
  const query = useQuery({ queryKey: ['faults'], queryFn: fetchFaults, refetchInterval: 15_000 })
  const set = useAct((faults: FaultsInForce) =>
    dataOf(client.POST('/api/sandbox/provider/faults', { body: faults })),
  )
  return (
    <Card title={say('faults')} note={say('faultsHint')}>
      <Loaded query={query} rows={3}>
        {({ faults }) => (
          <Stack gap={8}>
            {switches.map(({ field, on, word }) => (
              <Checkbox
                key={field}
                size="sm"
                label={say(word)}
                checked={Boolean(faults[field])}
                disabled={set.isPending}
                onChange={({ currentTarget: { checked } }) =>
                  // What was set elsewhere, and how often it strikes, stays.
                  set.mutate({ ...faults, [field]: checked ? on : undefined })
                }
              />
            ))}
          </Stack>
        )}
      </Loaded>
    </Card>
  )
}

/** A customer's first year, a refund and a model: each step is ticked off by what the service itself says. */
function FirstVisit() {
  const say = useSay()
  const navigate = useNavigate()
  const [isSubscribing, setIsSubscribing] = useState(false)
  const advance = useAdvance()
  const trigger = useTrigger()
  const demo = useDemo()
  const fill = useAct((parts: ('batch' | 'billing')[]) =>
    dataOf(client.POST('/api/sandbox/demo', { body: { parts } })),
  )
  const invoices = useQuery({
    queryKey: ['first-invoices'],
    queryFn: () => dataOf(client.GET('/api/billing/invoices', { params: { query: { limit: 50 } } })),
    refetchInterval: 5_000,
  })
  const batch = useQuery({
    queryKey: ['batch-summary'],
    queryFn: () => dataOf(client.GET('/api/batch/summary')),
    refetchInterval: ({ state }) =>
      state.data?.last_runs.some(({ status }) => status === 'running' || status === 'queued')
        ? 2_500
        : 15_000,
  })
  const paid = invoices.data?.invoices.filter(({ status }) => status === 'paid') ?? []
  const run = batch.data?.last_runs.find(({ task }) => task === 'train_classifier')
  const isTraining = run?.status === 'queued' || run?.status === 'running'
  const isFilling = demo.data?.status === 'running'
  const steps = [
    {
      word: 'step_subscribe',
      done: (invoices.data?.invoices.length ?? 0) > 0,
      act: (
        <Button size="xs" onClick={() => setIsSubscribing(true)}>
          {say('newSubscription')}
        </Button>
      ),
    },
    {
      word: 'step_travel',
      done: (invoices.data?.invoices.length ?? 0) > 11,
      act: (
        <Button
          size="xs"
          variant="default"
          loading={advance.isPending}
          onClick={() => advance.mutate('P12M')}
        >
          {say('year1')}
        </Button>
      ),
    },
    {
      word: 'step_refund',
      done: invoices.data?.invoices.some(({ amount_refunded }) => amount_refunded > 0) ?? false,
      act: (
        <Button
          size="xs"
          variant="default"
          disabled={paid.length === 0}
          onClick={() => void navigate({ to: '/invoices/$id', params: { id: paid[0]!.invoice_id } as never })}
        >
          {say('go')}
        </Button>
      ),
    },
    {
      word: 'step_data',
      done: (batch.data?.preconditions.rank_rows ?? 0) >= 1000,
      act: (
        <Button size="xs" variant="default" loading={isFilling} onClick={() => fill.mutate(['batch'])}>
          {say('fillBatch')}
        </Button>
      ),
    },
    {
      word: 'step_train',
      done: batch.data?.active_model != null,
      act: (
        <Button
          size="xs"
          variant="default"
          loading={isTraining}
          onClick={() => {
            trigger.mutate('train_classifier')
            void navigate({ to: '/training' })
          }}
        >
          {say('start')}
        </Button>
      ),
    },
  ] as const
  return (
    <Card
      title={say('firstVisit')}
      note={say('firstVisitHint')}
      action={
        <Button size="xs" variant="default" loading={isFilling} onClick={() => fill.mutate(['billing'])}>
          {say('fillBilling')}
        </Button>
      }
    >
      {isFilling && demo.data && (
        <Alert color="indigo" mb="sm" role="status">
          {say('demoRunning')} {demo.data.note}
          <Progress
            mt={8}
            value={(demo.data.done / Math.max(1, demo.data.of)) * 100}
            aria-label={say('demoRunning')}
          />
        </Alert>
      )}
      {steps.map(({ word, done, act }, at) => (
        <div key={word} className="rl-step">
          <span className="rl-step-mark" data-done={done || undefined} aria-hidden>
            {done ? '✓' : at + 1}
          </span>
          <div style={{ flex: 1 }}>
            <Text size="sm" fw={600}>
              {say(word)}
            </Text>
            <Text size="xs" c="dimmed">
              {say(`${word}_hint`)}
            </Text>
          </div>
          {act}
        </div>
      ))}
      <SubscribeForm opened={isSubscribing} onClose={() => setIsSubscribing(false)} onDone={() => {}} />
    </Card>
  )
}

/** Row by row: what the provider took beside what we recorded of the same reference. */
function Books() {
  const say = useSay()
  const money = useMoney()
  const book = useQuery({
    queryKey: ['book'],
    queryFn: () => dataOf(client.GET('/api/sandbox/provider/payments', { params: { query: { limit: 20 } } })),
    refetchInterval: 5_000,
  })
  const ours = useQuery({
    queryKey: ['first-invoices'],
    queryFn: () => dataOf(client.GET('/api/billing/invoices', { params: { query: { limit: 50 } } })),
    refetchInterval: 5_000,
  })
  const known = new Map(
    ours.data?.invoices.flatMap((invoice) =>
      invoice.payments.map((payment) => [payment.reference, { invoice, payment }] as const),
    ),
  )
  return (
    <Card title={say('bookTitle')} note={say('bookHint')} flush>
      <Loaded query={book}>
        {({ payments }) =>
          payments.length === 0 ? (
            <Empty title={say('none')} />
          ) : (
            <Table
              label={say('bookTitle')}
              rows={payments}
              keyOf={(row) => row.reference}
              columns={[
                { head: say('account'), cell: (row) => row.account_id },
                { head: 'ID', cell: (row) => <Id of={row.reference} />, wide: true },
                {
                  head: say('theirs'),
                  cell: (row) => (
                    <>
                      <Status of={row.status} />{' '}
                      <Money amount={row.amount - row.amount_refunded} currency={row.currency} />
                    </>
                  ),
                },
                {
                  head: say('ours'),
                  cell: (row) => {
                    const own = known.get(row.reference)
                    if (!own)
                      return (
                        <Text span size="xs" c="dimmed">
                          {say('notInOurs')}
                        </Text>
                      )
                    return (
                      <To to={`/invoices/${own.invoice.invoice_id}`}>
                        {money(
                          own.payment.status === 'succeeded'
                            ? own.payment.amount - own.payment.amount_refunded
                            : own.payment.amount,
                          own.payment.currency,
                        )}
                      </To>
                    )
                  },
                },
                {
                  head: say('status'),
                  cell: (row) => {
                    const own = known.get(row.reference)
                    if (!own) return '–'
                    const isSame =
                      (row.status === 'paid') === (own.payment.status === 'succeeded') &&
                      row.amount === own.payment.amount &&
                      row.amount_refunded === own.payment.amount_refunded
                    return (
                      <span className="rl-status">
                        <span className="rl-dot" data-tone={isSame ? 'good' : 'bad'} aria-hidden />
                        {say(isSame ? 'agree' : 'differs')}
                      </span>
                    )
                  },
                  wide: true,
                },
              ]}
            />
          )
        }
      </Loaded>
    </Card>
  )
}
