import { Button, Select, Text, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { client, dataOf } from '../api/client.ts'
import { useList } from '../api/lists.ts'
import { useMay, useSession } from '../api/session.ts'
import { Confirm, useAct } from '../ui/act.tsx'
import { useFactName } from '../ui/facts.ts'
import { useMoney, useTime } from '../ui/formats.ts'
import { useSay } from '../ui/language.tsx'
import { Empty, Loaded } from '../ui/load-parts.tsx'
import { Card, Facts, PageHead } from '../ui/page-parts.tsx'
import { List } from '../ui/table.tsx'
import { testCards } from '../ui/test-cards.ts'
import { Id, Status, To, When } from '../ui/value-parts.tsx'
import { useWish } from '../ui/wish.ts'
import { useInvoiceColumns } from './invoices.tsx'

const fetchOne = (id: string) =>
  dataOf(
    client.GET('/api/billing/subscriptions/{subscription_id}', { params: { path: { subscription_id: id } } }),
  )
type One = Awaited<ReturnType<typeof fetchOne>>

export function Subscription() {
  const { id } = useParams({ strict: false }) as { id: string }
  const query = useQuery({
    queryKey: ['subscription', id],
    queryFn: () => fetchOne(id),
    refetchInterval: 5_000,
  })
  return (
    <Loaded query={query} rows={12}>
      {(one) => <Shown one={one} />}
    </Loaded>
  )
}

function Shown({ one }: { one: One }) {
  const say = useSay()
  const money = useMoney()
  const per =
    { day: say('perDay'), week: say('perWeek'), month: say('perMonth'), year: say('perYear') }[
      one.interval
    ] ?? one.interval
  return (
    <>
      <PageHead title={one.account_id} note={<Id of={one.subscription_id} copy />}>
        <Actions one={one} />
      </PageHead>
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
                [say('plan'), one.plan_id],
                [
                  say('terms'),
                  `${money(one.amount, one.currency)} / ${one.interval_count > 1 ? `${one.interval_count} ` : ''}${per}`,
                ],
                [
                  say('period'),
                  <span key="p">
                    <When at={one.current_period_start} day /> – <When at={one.current_period_end} day />
                  </span>,
                ],
                [
                  say('nextCharge'),
                  <When key="n" at={one.status === 'canceling' ? null : one.next_billing_at} />,
                ],
                ...(one.trial_ends_at
                  ? [[say('trialEnds'), <When key="t" at={one.trial_ends_at} />] as const]
                  : []),
                ...(one.cancel_at && one.status === 'canceling'
                  ? [[say('cancelAt'), <When key="c" at={one.cancel_at} />] as const]
                  : []),
                ...(one.canceled_at
                  ? [[say('canceledAt'), <When key="e" at={one.canceled_at} />] as const]
                  : []),
                ...(one.cancel_reason ? [[say('cancelReason'), one.cancel_reason] as const] : []),
                [
                  say('paymentMethod'),
                  one.payment_method
                    ? `${one.payment_method.brand} ·· ${one.payment_method.last4} · ${one.payment_method.expires}`
                    : say('noPaymentMethod'),
                ],
                [say('access'), say(one.access ? 'yes' : 'no')],
                [say('timezone'), one.timezone],
              ]}
            />
          </Card>
          <Card title={say('invoices')} flush>
            <OwnInvoices id={one.subscription_id} />
          </Card>
        </div>
        <Timeline id={one.subscription_id} />
      </div>
    </>
  )
}

function OwnInvoices({ id }: { id: string }) {
  const say = useSay()
  const query = useList(
    ['invoices-of', id],
    (cursor) =>
      dataOf(
        client.GET('/api/billing/invoices', {
          params: { query: { subscription_id: id, limit: 15, ...(cursor && { cursor }) } },
        }),
      ),
    { everyMs: 10_000 },
  )
  const columns = useInvoiceColumns({ withoutAccount: true })
  return (
    <List
      label={say('invoices')}
      query={query}
      rowsOf={(page) => page.invoices}
      columns={columns}
      keyOf={(row) => row.invoice_id}
      empty={<Empty title={say('noInvoices')} />}
    />
  )
}

function Timeline({ id }: { id: string }) {
  const say = useSay()
  const factName = useFactName()
  const query = useQuery({
    queryKey: ['timeline', id],
    queryFn: () =>
      dataOf(
        client.GET('/api/billing/subscriptions/{subscription_id}/timeline', {
          params: { path: { subscription_id: id } },
        }),
      ),
    refetchInterval: 10_000,
  })
  return (
    <Card title={say('timeline')}>
      <Loaded query={query}>
        {({ facts, next }) => (
          <ol className="rl-timeline">
            {next.map(({ at, what }) => (
              <li key={at + what} data-next>
                <Text size="sm" fw={550}>
                  {factName(what)}
                </Text>
                <Text size="xs" c="dimmed" component="div">
                  <When at={at} /> · {say('comesNext')}
                </Text>
              </li>
            ))}
            {[...facts].reverse().map(({ at, what, by, data }, place) => {
              const invoice = (data as { invoice_id?: string } | undefined)?.invoice_id
              return (
                // biome-ignore lint/suspicious/noArrayIndexKey: facts are only ever added at the other end
                <li key={facts.length - place}>
                  <Text size="sm">
                    {factName(what)}
                    {invoice && (
                      <>
                        {' '}
                        · <To to={`/invoices/${invoice}`}>{say('invoice')}</To>
                      </>
                    )}
                  </Text>
                  <Text size="xs" c="dimmed" component="div">
                    <When at={at} />
                    {by && (
                      <>
                        {' '}
                        · <span className="rl-id">{by}</span>
                      </>
                    )}
                  </Text>
                </li>
              )
            })}
          </ol>
        )}
      </Loaded>
    </Card>
  )
}

/** Only what the API allows now, and only to a token that may. */
function Actions({ one }: { one: One }) {
  const say = useSay()
  const may = useMay()
  const [open, setOpen] = useState<'cancel' | 'resume' | 'change_payment_method'>()
  if (!may('billing:write')) return null
  const allowed = (action: string) => (one.allowed_actions as string[]).includes(action)
  const close = () => setOpen(undefined)
  return (
    <>
      {allowed('resume') && (
        <Button size="xs" onClick={() => setOpen('resume')}>
          {say('actResume')}
        </Button>
      )}
      {allowed('change_payment_method') && (
        <Button size="xs" variant="default" onClick={() => setOpen('change_payment_method')}>
          {say('actPaymentMethod')}
        </Button>
      )}
      {allowed('cancel') && (
        <Button size="xs" variant="default" onClick={() => setOpen('cancel')}>
          {say('actCancel')}
        </Button>
      )}
      <CancelForm one={one} opened={open === 'cancel'} onClose={close} />
      <ResumeForm one={one} opened={open === 'resume'} onClose={close} />
      <PaymentMethodForm one={one} opened={open === 'change_payment_method'} onClose={close} />
    </>
  )
}

type FormProps = { one: One; opened: boolean; onClose: () => void }

function CancelForm({ one, opened, onClose }: FormProps) {
  const say = useSay()
  const money = useMoney()
  const time = useTime()
  const [reason, setReason] = useState('')
  const act = useAct(
    () =>
      dataOf(
        client.POST('/api/billing/cancel', {
          body: { subscription_id: one.subscription_id, ...(reason && { reason }) },
        }),
      ),
    { onDone: onClose },
  )
  const isLater = one.status === 'active' || one.status === 'trialing'
  return (
    <Confirm
      opened={opened}
      onClose={onClose}
      title={say('actCancel')}
      yes={say('actCancel')}
      danger
      busy={act.isPending}
      onYes={() => act.mutate()}
    >
      <Text size="sm">
        {isLater && one.next_billing_at
          ? say('cancelSays', { when: time(one.next_billing_at), amount: money(one.amount, one.currency) })
          : say('cancelNow')}
      </Text>
      <TextInput
        label={say('cancelReason')}
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
        maxLength={500}
      />
    </Confirm>
  )
}

function ResumeForm({ one, opened, onClose }: FormProps) {
  const say = useSay()
  const money = useMoney()
  const time = useTime()
  const act = useAct(
    () => dataOf(client.POST('/api/billing/resume', { body: { subscription_id: one.subscription_id } })),
    { onDone: onClose },
  )
  return (
    <Confirm
      opened={opened}
      onClose={onClose}
      title={say('actResume')}
      yes={say('actResume')}
      busy={act.isPending}
      onYes={() => act.mutate()}
    >
      <Text size="sm">
        {say('resumeSays', {
          when: one.next_billing_at ? time(one.next_billing_at) : '–',
          amount: money(one.amount, one.currency),
        })}
      </Text>
    </Confirm>
  )
}

function PaymentMethodForm({ one, opened, onClose }: FormProps) {
  const say = useSay()
  const { mode } = useSession()
  const [card, setCard] = useState<string>(mode === 'sandbox' ? testCards[0] : '')
  const wish = useWish()
  const act = useAct(
    () => {
      const body = { subscription_id: one.subscription_id, payment_method: { billing_key: card } }
      return wish(body, (params) => client.POST('/api/billing/payment-method', { body, params }))
    },
    { onDone: onClose },
  )
  return (
    <Confirm
      opened={opened}
      onClose={onClose}
      title={say('actPaymentMethod')}
      yes={say('actPaymentMethod')}
      busy={act.isPending}
      onYes={() => act.mutate()}
    >
      <Text size="sm">
        {one.status === 'past_due' ? say('paymentMethodPastDue') : <PaymentMethodSays one={one} />}
      </Text>
      {mode === 'sandbox' ? (
        <Select
          label={say('testCard')}
          data={[...testCards]}
          value={card}
          onChange={(value) => setCard(value ?? testCards[0])}
          allowDeselect={false}
        />
      ) : (
        <TextInput
          label={say('billingKey')}
          value={card}
          onChange={(event) => setCard(event.currentTarget.value)}
          required
        />
      )}
    </Confirm>
  )
}

function PaymentMethodSays({ one }: { one: One }) {
  const say = useSay()
  return <>{say('paymentMethodSays', { amount: useMoney()(one.amount, one.currency) })}</>
}
