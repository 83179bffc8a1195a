import { Button, NumberInput, Select, Stack, Switch, TextInput } from '@mantine/core'
import { useState } from 'react'
import { client, dataOf } from '../api/client.ts'
import { asked, useList } from '../api/lists.ts'
import { useMay } from '../api/session.ts'
import { Confirm, useAct } from '../ui/act.tsx'
import { useSay } from '../ui/language.tsx'
import { Empty } from '../ui/load-parts.tsx'
import { PageHead } from '../ui/page-parts.tsx'
import { List } from '../ui/table.tsx'
import { Money, Status } from '../ui/value-parts.tsx'

const fetchPage = (cursor: string | undefined) =>
  dataOf(client.GET('/api/billing/plans', { params: { query: asked({ cursor, limit: 50 }) } }))
type Plan = Awaited<ReturnType<typeof fetchPage>>['plans'][number]
const fresh = {
  plan_id: '',
  name: '',
  amount: 9900,
  currency: 'KRW',
  interval: 'month',
  interval_count: 1,
  trial_days: 14,
  active: true,
} as Plan

export function Plans() {
  const say = useSay()
  const may = useMay()
  const [edited, setEdited] = useState<Plan>()
  const query = useList(['plans'], fetchPage)
  return (
    <>
      <PageHead title={say('plans')}>
        {may('admin') && (
          <Button size="xs" onClick={() => setEdited(fresh)}>
            {say('newPlan')}
          </Button>
        )}
      </PageHead>
      <div className="rl-card">
        <List
          label={say('plans')}
          query={query}
          rowsOf={(page) => page.plans}
          keyOf={(row) => row.plan_id}
          empty={<Empty title={say('none')} />}
          columns={[
            {
              head: say('name'),
              cell: (row) =>
                may('admin') ? (
                  <button
                    type="button"
                    className="rl-link"
                    style={{ all: 'unset', cursor: 'pointer', color: 'var(--mantine-color-anchor)' }}
                    onClick={() => setEdited(row)}
                  >
                    {row.name}
                  </button>
                ) : (
                  row.name
                ),
            },
            { head: say('planId'), cell: (row) => <span className="rl-id">{row.plan_id}</span>, wide: true },
            {
              head: say('price'),
              cell: (row) => <Money amount={row.amount} currency={row.currency} />,
              end: true,
            },
            {
              head: say('interval'),
              cell: (row) =>
                `${row.interval_count > 1 ? `${row.interval_count} ` : ''}${say(({ day: 'perDay', week: 'perWeek', month: 'perMonth', year: 'perYear' } as const)[row.interval as 'day'])}`,
            },
            { head: say('trialDays'), cell: (row) => row.trial_days, end: true, wide: true },
            {
              head: say('offered'),
              cell: (row) => <Status of={row.active ? 'active' : 'retired'} />,
              wide: true,
            },
          ]}
        />
      </div>
      {edited && <PlanForm key={edited.plan_id} plan={edited} onClose={() => setEdited(undefined)} />}
    </>
  )
}

function PlanForm({ plan, onClose }: { plan: Plan; onClose: () => void }) {
  const say = useSay()
  const [draft, setDraft] = useState(plan)
  const set = (change: Partial<Plan>) => setDraft({ ...draft, ...change })
  const act = useAct(
    () => {
      const { plan_id, name, amount, currency, interval, interval_count, trial_days, active } = draft
      return dataOf(
        client.PUT('/api/billing/plans/{plan_id}', {
          params: { path: { plan_id } },
          body: { name, amount, currency, interval, interval_count, trial_days, active } as never,
        }),
      )
    },
    { done: say('done'), onDone: onClose },
  )
  return (
    <Confirm
      opened
      onClose={onClose}
      title={plan.plan_id || say('newPlan')}
      yes={say('save')}
      busy={act.isPending}
      onYes={() => act.mutate()}
    >
      <Stack gap="sm">
        {plan.plan_id === '' && (
          <TextInput
            label={say('planId')}
            value={draft.plan_id}
            onChange={(event) => set({ plan_id: event.currentTarget.value })}
            required
            data-autofocus
          />
        )}
        <TextInput
          label={say('name')}
          value={draft.name}
          onChange={(event) => set({ name: event.currentTarget.value })}
          required
        />
        <NumberInput
          label={say('amount')}
          description={say('minorUnits')}
          value={draft.amount}
          onChange={(value) => set({ amount: Number(value) })}
          min={1}
          allowDecimal={false}
          required
        />
        <Select
          label={say('currency')}
          data={['KRW', 'USD', 'JPY', 'EUR']}
          value={draft.currency}
          onChange={(value) => set({ currency: value ?? 'KRW' })}
          allowDeselect={false}
        />
        <Select
          label={say('interval')}
          data={[
            { value: 'day', label: say('perDay') },
            { value: 'week', label: say('perWeek') },
            { value: 'month', label: say('perMonth') },
            { value: 'year', label: say('perYear') },
          ]}
          value={draft.interval}
          onChange={(value) => set({ interval: (value ?? 'month') as Plan['interval'] })}
          allowDeselect={false}
        />
        <NumberInput
          label={say('trialDays')}
          value={draft.trial_days}
          onChange={(value) => set({ trial_days: Number(value) })}
          min={0}
          max={3650}
          allowDecimal={false}
        />
        <Switch
          label={say('offered')}
          checked={draft.active}
          onChange={(event) => set({ active: event.currentTarget.checked })}
        />
      </Stack>
    </Confirm>
  )
}
