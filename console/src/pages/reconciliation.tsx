import { Alert, Button, Loader, Text } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { client, dataOf } from '../api/client.ts'
import { useSession } from '../api/session.ts'
import { useAct } from '../ui/act.tsx'
import { useNumber } from '../ui/formats.ts'
import { useSay } from '../ui/language.tsx'
import { Empty, Loaded } from '../ui/load-parts.tsx'
import { Card, Figure, PageHead } from '../ui/page-parts.tsx'
import { Table } from '../ui/table.tsx'
import { Status, When } from '../ui/value-parts.tsx'

export function Reconciliation() {
  const say = useSay()
  const number = useNumber()
  const { mode } = useSession()
  const query = useQuery({
    queryKey: ['reconciliations'],
    queryFn: () => dataOf(client.GET('/api/billing/reconciliations')),
    refetchInterval: ({ state }) => (state.data?.reconciliations[0]?.status === 'running' ? 1_000 : 30_000),
  })
  const start = useAct(async () => {
    const now =
      mode === 'sandbox' ? Date.parse((await dataOf(client.GET('/api/sandbox/clock'))).now) : Date.now()
    const body = { from: new Date(now - 30 * 86_400_000).toISOString(), to: new Date(now).toISOString() }
    return dataOf(client.POST('/api/billing/reconciliations', { body }))
  })
  const isRunning = query.data?.reconciliations[0]?.status === 'running'
  return (
    <>
      <PageHead title={say('reconciliation')}>
        <Button size="xs" loading={isRunning || start.isPending} onClick={() => start.mutate()}>
          {say('compareBooks')}
        </Button>
      </PageHead>
      <Loaded query={query}>
        {({ reconciliations: all }) => {
          const last = all[0]
          if (!last)
            return (
              <div className="rl-card">
                <Empty title={say('noReports')} hint={say('noReportsHint')} />
              </div>
            )
          return (
            <div className="rl-stack">
              {last.reason && <Alert color="red">{last.reason}</Alert>}
              <div className="rl-grid" aria-live="polite">
                <Figure
                  label={say('compared')}
                  value={number(last.compared)}
                  note={
                    last.status === 'running' ? (
                      <Loader size="xs" type="dots" />
                    ) : (
                      <When at={last.finished_at} />
                    )
                  }
                />
                <Figure label={say('repaired')} value={number(last.repaired)} />
                <Figure
                  label={say('differences')}
                  value={number(last.differences)}
                  note={last.status === 'done' && last.differences === 0 ? say('booksAgree') : ' '}
                />
              </div>
              {last.examples.length > 0 && (
                <Card title={say('differences')}>
                  {last.examples.map((one, at) => (
                    // biome-ignore lint/suspicious/noArrayIndexKey: a report does not change
                    <Text key={at} size="sm" className="rl-id" mb={6}>
                      {Object.entries(one)
                        .map(
                          ([name, value]) =>
                            `${name}: ${typeof value === 'object' ? JSON.stringify(value) : String(value)}`,
                        )
                        .join(' · ')}
                    </Text>
                  ))}
                </Card>
              )}
              <div className="rl-card">
                <Table
                  label={say('reconciliation')}
                  rows={all}
                  keyOf={(row) => row.reconciliation_id}
                  columns={[
                    { head: say('started'), cell: (row) => <When at={row.started_at} /> },
                    {
                      head: say('period'),
                      cell: (row) => (
                        <>
                          <When at={row.from} day /> – <When at={row.to} day />
                        </>
                      ),
                      wide: true,
                    },
                    {
                      head: say('status'),
                      cell: (row) => (
                        <>
                          <Status of={row.status} />
                          {row.reason && (
                            <Text size="xs" c="dimmed">
                              {row.reason}
                            </Text>
                          )}
                        </>
                      ),
                    },
                    { head: say('compared'), cell: (row) => number(row.compared), end: true },
                    { head: say('repaired'), cell: (row) => number(row.repaired), end: true, wide: true },
                    { head: say('differences'), cell: (row) => number(row.differences), end: true },
                  ]}
                />
              </div>
            </div>
          )
        }}
      </Loaded>
    </>
  )
}
