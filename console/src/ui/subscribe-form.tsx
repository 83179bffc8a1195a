import { Select, Stack, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { client, dataOf } from '../api/client.ts'
import { useSession } from '../api/session.ts'
import { Confirm, useAct } from './act.tsx'
import { useMoney } from './formats.ts'
import { useSay } from './language.tsx'
import { testCards } from './test-cards.ts'
import { useWish } from './wish.ts'

/** Starts a subscription, or a trial, of an account that may not exist yet. */
export function SubscribeForm({
  opened,
  onClose,
  trial,
  onDone,
}: {
  opened: boolean
  onClose: () => void
  trial?: boolean
  onDone?: (account: string) => void
}) {
  const say = useSay()
  const money = useMoney()
  const { mode, account: bound } = useSession()
  const navigate = useNavigate()
  const [account, setAccount] = useState(bound === '*' || bound === null ? '' : bound)
  const [wanted, setWanted] = useState<string | null>('pro-monthly')
  const [card, setCard] = useState<string>(mode === 'sandbox' ? testCards[0] : '')
  const wish = useWish()
  const plans = useQuery({
    queryKey: ['plans', 'all'],
    queryFn: () => dataOf(client.GET('/api/billing/plans', { params: { query: { limit: 100 } } })),
    enabled: opened,
  })
  const offered = (plans.data?.plans ?? []).filter(
    ({ active, trial_days }) => active && (!trial || trial_days > 0),
  )
  const plan = offered.find(({ plan_id }) => plan_id === wanted)?.plan_id ?? null
  const act = useAct(
    () => {
      const grant = { account_id: account, plan_id: plan! }
      if (trial) return wish(grant, (params) => client.POST('/api/billing/trial', { body: grant, params }))
      const body = { ...grant, payment_method: { billing_key: card } }
      return wish(body, (params) => client.POST('/api/billing/subscribe', { body, params }))
    },
    {
      done: say('done'),
      onDone: () => {
        onClose()
        onDone?.(account)
        if (!onDone) void navigate({ to: '/accounts/$id', params: { id: account } as never })
      },
    },
  )
  return (
    <Confirm
      opened={opened}
      onClose={onClose}
      title={say(trial ? 'startTrial' : 'newSubscription')}
      yes={say(trial ? 'startTrial' : 'newSubscription')}
      busy={act.isPending}
      disabled={!account || !plan}
      onYes={() => act.mutate()}
    >
      <Stack gap="sm">
        <TextInput
          label={say('accountId')}
          value={account}
          onChange={(event) => setAccount(event.currentTarget.value)}
          placeholder="acct_1"
          required
          data-autofocus
        />
        <Select
          label={say('plan')}
          data={offered.map((one) => ({
            value: one.plan_id,
            label: `${one.name} · ${money(one.amount, one.currency)}`,
          }))}
          value={plan}
          onChange={setWanted}
          required
        />
        {!trial &&
          (mode === 'sandbox' ? (
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
          ))}
      </Stack>
    </Confirm>
  )
}
