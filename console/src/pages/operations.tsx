import { Button, Group, Text } from '@mantine/core'
import { useState } from 'react'
import { client, dataOf } from '../api/client.ts'
import { asked, useList } from '../api/lists.ts'
import { Confirm, useAct } from '../ui/act.tsx'
import { FilterBar, StatusFilter, TextFilter } from '../ui/filter-bar.tsx'
import { useFilters } from '../ui/filters.ts'
import { useSay } from '../ui/language.tsx'
import { Empty } from '../ui/load-parts.tsx'
import { PageHead } from '../ui/page-parts.tsx'
import { List } from '../ui/table.tsx'
import { Id, Status, To, When } from '../ui/value-parts.tsx'

const verdicts = ['waiting', 'done', 'ignored', 'failed'] as const

export function Webhooks() {
  const say = useSay()
  const [filters] = useFilters()
  const status = verdicts.find((one) => one === filters.status)
  const query = useList(
    ['webhooks', status],
    (cursor) =>
      dataOf(
        client.GET('/api/billing/webhooks', { params: { query: asked({ status, cursor, limit: 25 }) } }),
      ),
    { everyMs: 10_000 },
  )
  const replay = useAct(
    (event_id: string) =>
      dataOf(client.POST('/api/billing/webhooks/{event_id}/replay', { params: { path: { event_id } } })),
    { done: say('done') },
  )
  return (
    <>
      <PageHead title={say('webhooks')} />
      <FilterBar>
        <StatusFilter states={verdicts} />
      </FilterBar>
      <div className="rl-card">
        <List
          label={say('webhooks')}
          query={query}
          rowsOf={(page) => page.webhooks}
          keyOf={(row) => row.provider + row.event_id}
          empty={<Empty title={say('noWebhooks')} />}
          columns={[
            {
              head: say('type'),
              cell: (row) => (
                <>
                  <div>{row.type}</div>
                  <Text size="xs" c="dimmed" component="div">
                    <Id of={row.event_id} />
                  </Text>
                </>
              ),
            },
            {
              head: say('verdict'),
              cell: (row) => (
                <>
                  <Status of={row.status} />
                  {row.last_error && (
                    <Text size="xs" c="dimmed">
                      {row.last_error}
                    </Text>
                  )}
                </>
              ),
            },
            { head: say('provider'), cell: (row) => row.provider, wide: true },
            { head: say('tries'), cell: (row) => row.tries, end: true, wide: true },
            { head: say('received'), cell: (row) => <When at={row.received_at} />, wide: true },
            {
              head: say('actions'),
              cell: (row) =>
                row.reference ? (
                  <Button size="compact-xs" variant="default" onClick={() => replay.mutate(row.event_id)}>
                    {say('replay')}
                  </Button>
                ) : (
                  '–'
                ),
              end: true,
            },
          ]}
        />
      </div>
    </>
  )
}

export function Events() {
  const say = useSay()
  const [{ account, id }] = useFilters()
  const query = useList(
    ['events', account],
    (cursor) =>
      dataOf(
        client.GET('/api/billing/events', {
          params: { query: asked({ account_id: account, cursor, limit: 40 }) },
        }),
      ),
    { everyMs: 10_000 },
  )
  return (
    <>
      <PageHead title={say('events')} note={id && <Id of={id} copy />} />
      <FilterBar>
        <TextFilter name="account" label={say('accountId')} />
      </FilterBar>
      <div className="rl-card">
        <List
          label={say('events')}
          query={query}
          rowsOf={(page) => (id ? page.events.filter((event) => event.event_id === id) : page.events)}
          keyOf={(row) => row.event_id}
          empty={<Empty title={say('noEvents')} />}
          columns={[
            { head: say('type'), cell: (row) => row.type },
            {
              head: say('account'),
              cell: (row) => (
                <To
                  to={
                    row.subscription_id
                      ? `/subscriptions/${row.subscription_id}`
                      : `/accounts/${encodeURIComponent(row.account_id)}`
                  }
                >
                  {row.account_id}
                </To>
              ),
            },
            { head: say('when'), cell: (row) => <When at={row.occurred_at} /> },
            { head: 'ID', cell: (row) => <Id of={row.event_id} />, wide: true },
          ]}
        />
      </div>
    </>
  )
}

const jobStates = ['waiting', 'running', 'dead'] as const

export function Jobs() {
  const say = useSay()
  const [filters] = useFilters()
  const status = jobStates.find((one) => one === filters.status)
  const query = useList(
    ['jobs', status],
    (cursor) => dataOf(client.GET('/api/jobs', { params: { query: asked({ status, cursor, limit: 25 }) } })),
    { everyMs: 5_000 },
  )
  const [discarded, setDiscarded] = useState<{ job_id: string; name: string }>()
  const retry = useAct((job_id: string) =>
    dataOf(client.POST('/api/jobs/{job_id}/retry', { params: { path: { job_id } } })),
  )
  const discard = useAct(
    (job_id: string) => dataOf(client.POST('/api/jobs/{job_id}/discard', { params: { path: { job_id } } })),
    { onDone: () => setDiscarded(undefined) },
  )
  return (
    <>
      <PageHead title={say('jobs')} />
      <FilterBar>
        <StatusFilter states={jobStates} />
      </FilterBar>
      <div className="rl-card">
        <List
          label={say('jobs')}
          query={query}
          rowsOf={(page) => page.jobs}
          keyOf={(row) => row.job_id}
          empty={<Empty title={say('noJobs')} hint={say('noJobsHint')} />}
          columns={[
            {
              head: say('name'),
              cell: (row) => (
                <>
                  {row.name}
                  {row.last_error && (
                    <Text size="xs" c="dimmed">
                      {row.last_error}
                    </Text>
                  )}
                </>
              ),
            },
            { head: say('status'), cell: (row) => <Status of={row.status} /> },
            {
              head: say('tries'),
              cell: (row) => `${row.attempts} / ${row.max_attempts}`,
              end: true,
              wide: true,
            },
            { head: say('when'), cell: (row) => <When at={row.run_at} />, wide: true },
            {
              head: say('actions'),
              cell: (row) =>
                row.status === 'dead' ? (
                  <Group gap={6} justify="flex-end" wrap="nowrap">
                    <Button size="compact-xs" variant="default" onClick={() => retry.mutate(row.job_id)}>
                      {say('retry')}
                    </Button>
                    <Button size="compact-xs" variant="default" onClick={() => setDiscarded(row)}>
                      {say('discard')}
                    </Button>
                  </Group>
                ) : (
                  '–'
                ),
              end: true,
            },
          ]}
        />
      </div>
      <Confirm
        opened={discarded !== undefined}
        onClose={() => setDiscarded(undefined)}
        title={say('discard')}
        yes={say('discard')}
        danger
        busy={discard.isPending}
        onYes={() => discarded && discard.mutate(discarded.job_id)}
      >
        <Text size="sm">{say('discardSays', { name: discarded?.name ?? '' })}</Text>
      </Confirm>
    </>
  )
}

export function Audit() {
  const say = useSay()
  const [{ account, actor, action }] = useFilters()
  const query = useList(['audit', account, actor, action], (cursor) =>
    dataOf(
      client.GET('/api/audit', {
        params: { query: asked({ account_id: account, actor, action, cursor, limit: 40 }) },
      }),
    ),
  )
  return (
    <>
      <PageHead title={say('audit')} />
      <FilterBar>
        <TextFilter name="actor" label={say('actor')} />
        <TextFilter name="action" label={say('action')} />
        <TextFilter name="account" label={say('accountId')} />
      </FilterBar>
      <div className="rl-card">
        <List
          label={say('audit')}
          query={query}
          rowsOf={(page) => page.entries}
          keyOf={(row) => row.audit_id}
          empty={<Empty title={say('noAudit')} />}
          columns={[
            { head: say('action'), cell: (row) => row.action },
            { head: say('target'), cell: (row) => <Id of={row.target} /> },
            { head: say('actor'), cell: (row) => <span className="rl-id">{row.actor}</span>, wide: true },
            { head: say('account'), cell: (row) => row.account_id ?? '–', wide: true },
            { head: say('when'), cell: (row) => <When at={row.at} /> },
          ]}
        />
      </div>
    </>
  )
}
