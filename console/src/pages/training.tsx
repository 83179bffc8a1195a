import { Button, Progress, Text } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { client, dataOf } from '../api/client.ts'
import { asked, useList } from '../api/lists.ts'
import { useMay } from '../api/session.ts'
import { useAct } from '../ui/act.tsx'
import { useFilters } from '../ui/filters.ts'
import { useAge, useNumber } from '../ui/formats.ts'
import { useSay } from '../ui/language.tsx'
import { Empty, Loaded } from '../ui/load-parts.tsx'
import { Card, Figure, PageHead } from '../ui/page-parts.tsx'
import { List, Table } from '../ui/table.tsx'
import { Id, Status, To, When } from '../ui/value-parts.tsx'

const tasks = ['train_classifier', 'predict', 'aggregate_volumes'] as const
export type Task = (typeof tasks)[number]
const isBusy = (status: string) => status === 'queued' || status === 'running'

export function useTrigger() {
  return useAct((task: Task) => dataOf(client.POST('/api/batch/trigger', { body: { task } })))
}

export function Training() {
  const say = useSay()
  const may = useMay()
  const number = useNumber()
  const [{ run: wanted }] = useFilters()
  const trigger = useTrigger()
  const summary = useQuery({
    queryKey: ['batch-summary'],
    queryFn: () => dataOf(client.GET('/api/batch/summary')),
    refetchInterval: ({ state }) =>
      state.data?.last_runs.some(({ status }) => isBusy(status)) ? 2_000 : 20_000,
  })
  const busy = new Set(summary.data?.last_runs.filter(({ status }) => isBusy(status)).map(({ task }) => task))
  return (
    <>
      <PageHead title={say('training')}>
        {may('batch:write') && (
          <>
            <Button
              size="xs"
              variant="default"
              loading={busy.has('aggregate_volumes')}
              onClick={() => trigger.mutate('aggregate_volumes')}
            >
              {say('startAggregation')}
            </Button>
            <Button
              size="xs"
              variant="default"
              loading={busy.has('predict')}
              onClick={() => trigger.mutate('predict')}
            >
              {say('startPrediction')}
            </Button>
            <Button
              size="xs"
              loading={busy.has('train_classifier')}
              onClick={() => trigger.mutate('train_classifier')}
            >
              {say('startTraining')}
            </Button>
          </>
        )}
      </PageHead>
      <div className="rl-stack">
        {wanted && <WatchedRun id={wanted} />}
        <Loaded query={summary} rows={3}>
          {({ preconditions: has, active_model: model }) => (
            <div className="rl-grid">
              <Figure
                label={say('rankRows')}
                value={number(has.rank_rows)}
                note={say('ofRequired', { n: number(has.rank_rows_required) })}
              />
              <Figure label={say('usableRows')} value={number(has.usable_rows)} />
              <Figure label={say('daysKnown')} value={number(has.days)} />
              <Figure
                label={say('activeModel')}
                value={model ? `v${model.version}` : '–'}
                note={model ? String(model.algorithm['name']) : say('noModel')}
                {...(model && { to: `/models/${model.model_id}` })}
              />
            </div>
          )}
        </Loaded>
        <Runs busy={busy.size > 0} />
        <Models busy={busy.has('train_classifier')} />
      </div>
    </>
  )
}

function WatchedRun({ id }: { id: string }) {
  const say = useSay()
  const query = useQuery({
    queryKey: ['run', id],
    queryFn: () => dataOf(client.GET('/api/batch/runs/{run_id}', { params: { path: { run_id: id } } })),
    refetchInterval: ({ state }) => (state.data && isBusy(state.data.status) ? 2_000 : false),
  })
  return (
    <Card title={id}>
      <Loaded query={query} rows={2}>
        {(run) => (
          <Table
            label={id}
            rows={[run]}
            keyOf={(one) => one.run_id}
            columns={[
              { head: say('type'), cell: (one) => say(one.task) },
              { head: say('status'), cell: (one) => <Status of={one.status} /> },
              { head: say('error'), cell: (one) => one.error?.message ?? '–' },
              { head: say('started'), cell: (one) => <When at={one.started_at} /> },
            ]}
          />
        )}
      </Loaded>
    </Card>
  )
}

function Runs({ busy }: { busy: boolean }) {
  const say = useSay()
  const age = useAge()
  const query = useList(
    ['runs'],
    (cursor) => dataOf(client.GET('/api/batch/runs', { params: { query: asked({ cursor, limit: 8 }) } })),
    { everyMs: busy ? 2_500 : 30_000 },
  )
  return (
    <Card title={say('runs')} flush>
      <List
        label={say('runs')}
        query={query}
        rowsOf={(page) => page.runs}
        keyOf={(row) => row.run_id}
        empty={<Empty title={say('noRuns')} />}
        columns={[
          { head: say('type'), cell: (row) => say(row.task) },
          {
            head: say('status'),
            cell: (row) => (
              <>
                <Status of={row.status} />
                {row.error && (
                  <Text size="xs" c="dimmed">
                    {row.error.message}
                  </Text>
                )}
              </>
            ),
          },
          {
            head: say('progress'),
            cell: (row) => <Progress value={row.progress * 100} w={90} aria-label={say('progress')} />,
            wide: true,
          },
          { head: say('started'), cell: (row) => <When at={row.started_at ?? row.queued_at} /> },
          {
            head: say('took'),
            cell: (row) =>
              row.started_at && row.finished_at
                ? age((Date.parse(row.finished_at) - Date.parse(row.started_at)) / 1000)
                : '–',
            end: true,
            wide: true,
          },
          {
            head: say('model'),
            cell: (row) =>
              row.model_id ? (
                <To to={`/models/${row.model_id}`}>
                  <Id of={row.model_id} />
                </To>
              ) : (
                '–'
              ),
            wide: true,
          },
        ]}
      />
    </Card>
  )
}

function Models({ busy }: { busy: boolean }) {
  const say = useSay()
  const number = useNumber()
  const query = useList(
    ['models'],
    (cursor) => dataOf(client.GET('/api/batch/models', { params: { query: asked({ cursor, limit: 8 }) } })),
    { everyMs: busy ? 5_000 : 60_000 },
  )
  const lossOf = (metrics: Record<string, unknown>, name: string) =>
    (metrics[name] as { log_loss?: number; accuracy?: number } | null) ?? {}
  const three = { minimumFractionDigits: 3, maximumFractionDigits: 3 }
  return (
    <Card title={say('models')} flush>
      <List
        label={say('models')}
        query={query}
        rowsOf={(page) => page.models}
        keyOf={(row) => row.model_id}
        empty={<Empty title={say('noModels')} />}
        columns={[
          { head: say('version'), cell: (row) => <To to={`/models/${row.model_id}`}>v{row.version}</To> },
          { head: say('status'), cell: (row) => <Status of={row.status} /> },
          { head: say('algorithm'), cell: (row) => String(row.algorithm['name']), wide: true },
          {
            head: say('logLoss'),
            cell: (row) => number(lossOf(row.metrics, 'holdout').log_loss ?? 0, three),
            end: true,
          },
          {
            head: say('baseline'),
            cell: (row) =>
              number(
                Math.min(
                  lossOf(row.metrics, 'baseline_prior').log_loss ?? 9,
                  lossOf(row.metrics, 'baseline_naive').log_loss ?? 9,
                ),
                three,
              ),
            end: true,
            wide: true,
          },
          {
            head: say('accuracy'),
            cell: (row) =>
              number(lossOf(row.metrics, 'holdout').accuracy ?? 0, {
                style: 'percent',
                maximumFractionDigits: 1,
              }),
            end: true,
            wide: true,
          },
          { head: say('created'), cell: (row) => <When at={row.created_at} />, wide: true },
        ]}
      />
    </Card>
  )
}
