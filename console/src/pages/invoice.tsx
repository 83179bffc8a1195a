import { Alert, Anchor, Button, NumberInput, Select, Text } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { client, dataOf } from '../api/client.ts'
import { useMay } from '../api/session.ts'
import { Confirm, useAct } from '../ui/act.tsx'
import { useMoney } from '../ui/formats.ts'
import { useSay } from '../ui/language.tsx'
import { Loaded } from '../ui/load-parts.tsx'
import { Card, Facts, PageHead } from '../ui/page-parts.tsx'
import { Table } from '../ui/table.tsx'
import { Id, Money, Status, To, When } from '../ui/value-parts.tsx'
import { useWish } from '../ui/wish.ts'

const fetchOne = (id: string) =>
  dataOf(client.GET('/api/billing/invoices/{invoice_id}', { params: { path: { invoice_id: id } } }))
type One = Awaited<ReturnType<typeof fetchOne>>
const isPending = (one: One) => [...one.refunds, ...one.payments].some(({ status }) => status === 'pending')

export function Invoice() {
  const { id } = useParams({ strict: false }) as { id: string }
  const query = useQuery({
    queryKey: ['invoice', id],
    queryFn: () => fetchOne(id),
    // What the provider has not answered yet is followed closely.
    refetchInterval: ({ state }) => (state.data && isPending(state.data) ? 1_500 : 15_000),
  })
  return (
    <Loaded query={query} rows={12}>
      {(one) => <Shown one={one} />}
    </Loaded>
  )
}

function Shown({ one }: { one: One }) {
  const say = useSay()
  const may = useMay()
  const [opened, setOpened] = useState(false)
  const pending = one.refunds
    .filter(({ status }) => status === 'pending')
    .reduce((sum, { amount }) => sum + amount, 0)
  const left = one.amount_paid - one.amount_refunded - pending
  const money = useMoney()
  return (
    <>
      <PageHead title={`${say('invoice')} ${one.number}`} note={<Id of={one.invoice_id} copy />}>
        {may('billing:refund') && left > 0 && (
          <Button size="xs" onClick={() => setOpened(true)}>
            {say('refund')}
          </Button>
        )}
        <Button
          size="xs"
          variant="default"
          component="a"
          href={`/api/billing/invoices/${one.invoice_id}.pdf`}
          target="_blank"
          rel="noreferrer"
        >
          {say('openPdf')}
        </Button>
      </PageHead>
      {pending > 0 && (
        <Alert mb="md" color="indigo" role="status">
          {say('refundPending')}
        </Alert>
      )}
      <div className="rl-split">
        <div className="rl-stack">
          <Card>
            <Facts
              of={[
                [say('status'), <Status key="s" of={one.status} />],
                [
                  say('account'),
                  <To key="a" to={`/accounts/${encodeURIComponent(one.account_id)}`}>
                    {one.account_id}
                  </To>,
                ],
                [
                  say('subscription'),
                  <To key="u" to={`/subscriptions/${one.subscription_id}`}>
                    <Id of={one.subscription_id} />
                  </To>,
                ],
                [say('due'), money(one.amount_due, one.currency)],
                [say('paid'), money(one.amount_paid, one.currency)],
                [say('refunded'), money(one.amount_refunded, one.currency)],
                [
                  say('period'),
                  <span key="p">
                    <When at={one.period_start} day /> – <When at={one.period_end} day />
                  </span>,
                ],
                [say('issued'), <When key="i" at={one.issued_at} />],
                [say('attempt'), one.attempt_count],
                ...(one.next_attempt_at
                  ? [[say('nextAttempt'), <When key="n" at={one.next_attempt_at} />] as const]
                  : []),
              ]}
            />
          </Card>
          <Card title={say('lines')} flush>
            <Table
              label={say('lines')}
              rows={one.lines}
              keyOf={(line) => line.description}
              columns={[
                { head: say('name'), cell: (line) => line.description },
                {
                  head: say('amount'),
                  cell: (line) => <Money amount={line.amount} currency={one.currency} />,
                  end: true,
                },
              ]}
            />
          </Card>
          <Card title={say('payments')} flush>
            <Table
              label={say('payments')}
              rows={one.payments}
              keyOf={(row) => row.payment_id}
              columns={[
                { head: 'ID', cell: (row) => <Id of={row.payment_id} />, wide: true },
                {
                  head: say('status'),
                  cell: (row) => (
                    <>
                      <Status of={row.status} />
                      {row.failure_code && (
                        <Text size="xs" c="dimmed">
                          {row.failure_code.replaceAll('_', ' ')}
                        </Text>
                      )}
                    </>
                  ),
                },
                {
                  head: say('amount'),
                  cell: (row) => <Money amount={row.amount} currency={row.currency} />,
                  end: true,
                },
                { head: say('when'), cell: (row) => <When at={row.created_at} />, wide: true },
              ]}
            />
          </Card>
          <Card title={say('refunds')} flush={one.refunds.length > 0}>
            {one.refunds.length === 0 ? (
              <Text size="sm" c="dimmed">
                {say('noRefunds')}
              </Text>
            ) : (
              <Table
                label={say('refunds')}
                rows={one.refunds}
                keyOf={(row) => row.refund_id}
                columns={[
                  { head: 'ID', cell: (row) => <Id of={row.refund_id} />, wide: true },
                  { head: say('status'), cell: (row) => <Status of={row.status} /> },
                  {
                    head: say('amount'),
                    cell: (row) => <Money amount={row.amount} currency={row.currency} />,
                    end: true,
                  },
                  {
                    head: say('refundReason'),
                    cell: (row) => (row.reason ?? '–').replaceAll('_', ' '),
                    wide: true,
                  },
                  { head: say('when'), cell: (row) => <When at={row.created_at} /> },
                ]}
              />
            )}
          </Card>
        </div>
        <Pdf one={one} />
      </div>
      <RefundForm one={one} left={left} opened={opened} onClose={() => setOpened(false)} />
    </>
  )
}

/** The printed document, fetched with the session and shown from memory; it is read anew when the totals change. */
function Pdf({ one }: { one: One }) {
  const say = useSay()
  const [url, setUrl] = useState<string>()
  const { invoice_id: id, status, amount_refunded } = one
  // biome-ignore lint/correctness/useExhaustiveDependencies: another state prints another document
  useEffect(() => {
    let made: string | undefined
    const stop = new AbortController()
    fetch(`/api/billing/invoices/${id}.pdf`, { signal: stop.signal })
      .then((answer) => (answer.ok ? answer.blob() : undefined))
      .then((blob) => {
        if (!blob || stop.signal.aborted) return
        made = URL.createObjectURL(blob)
        setUrl(made)
      })
      .catch(() => {})
    return () => {
      stop.abort()
      if (made) URL.revokeObjectURL(made)
    }
  }, [id, status, amount_refunded])
  return (
    <div>
      {url ? (
        <iframe className="rl-pdf" title={`${say('pdf')} ${one.number}`} src={`${url}#toolbar=0&view=FitH`} />
      ) : (
        <div className="rl-pdf" />
      )}
      <Text size="xs" ta="center" mt={6}>
        <Anchor href={`/api/billing/invoices/${id}.pdf`} target="_blank" rel="noreferrer">
          {say('openPdf')}
        </Anchor>
      </Text>
    </div>
  )
}

const reasons = ['requested_by_customer', 'duplicate', 'fraudulent', 'other'] as const

function RefundForm({
  one,
  left,
  opened,
  onClose,
}: {
  one: One
  left: number
  opened: boolean
  onClose: () => void
}) {
  const say = useSay()
  const money = useMoney()
  const digits =
    new Intl.NumberFormat('en', { style: 'currency', currency: one.currency }).resolvedOptions()
      .maximumFractionDigits ?? 2
  const scale = 10 ** digits
  const wish = useWish()
  const [amount, setAmount] = useState<number | string>(left / scale)
  const [reason, setReason] = useState<(typeof reasons)[number]>('requested_by_customer')
  useEffect(() => setAmount(left / scale), [left, scale])
  const minor = Math.round(Number(amount) * scale)
  const isRight = minor >= 1 && minor <= left
  const act = useAct(
    () => {
      const body = { invoice_id: one.invoice_id, amount: minor, reason }
      return wish(body, (params) => client.POST('/api/billing/refund', { body, params }))
    },
    { onDone: onClose },
  )
  return (
    <Confirm
      opened={opened}
      onClose={onClose}
      title={say('refundTitle')}
      yes={`${say('refund')} ${isRight ? money(minor, one.currency) : ''}`}
      danger
      busy={act.isPending}
      disabled={!isRight}
      onYes={() => act.mutate()}
    >
      <NumberInput
        label={say('refundAmount')}
        value={amount}
        onChange={setAmount}
        min={1 / scale}
        max={left / scale}
        clampBehavior="none"
        decimalScale={digits}
        thousandSeparator=","
        hideControls
        data-autofocus
        error={isRight ? undefined : say('refundTooMuch', { most: money(left, one.currency) })}
        description={
          isRight
            ? say('refundRemains', {
                left: money(left - minor, one.currency),
                paid: money(one.amount_paid, one.currency),
              })
            : undefined
        }
      />
      <Select
        label={say('refundReason')}
        data={reasons.map((value) => ({ value, label: say(value) }))}
        value={reason}
        onChange={(value) => setReason((value as (typeof reasons)[number]) ?? 'other')}
        allowDeselect={false}
      />
    </Confirm>
  )
}
