import { Button, Group, Text } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { client, dataOf } from '../api/client.ts'
import { asked, useList } from '../api/lists.ts'
import { FilterBar } from '../ui/filter-bar.tsx'
import { useFilters } from '../ui/filters.ts'
import { useNumber } from '../ui/formats.ts'
import { useSay } from '../ui/language.tsx'
import { Empty, Loaded, Waiting } from '../ui/load-parts.tsx'
import { Card, PageHead } from '../ui/page-parts.tsx'
import { List, Table } from '../ui/table.tsx'
import { Move, Status, To, When } from '../ui/value-parts.tsx'
import { useWorkspace, WorkspaceField } from '../ui/workspace.tsx'

/** What moved on a day, what is checked by itself, and how its sources are. */
export function Tracking() {
  const say = useSay()
  const { workspace, isLoading } = useWorkspace()
  return (
    <>
      <PageHead title={say('tracking')} note={workspace} />
      <FilterBar>
        <WorkspaceField />
      </FilterBar>
      {isLoading ? (
        <div className="rl-card">
          <Waiting rows={8} />
        </div>
      ) : workspace ? (
        <div className="rl-stack">
          <Movements workspace={workspace} />
          <Trackers workspace={workspace} />
          <Sources workspace={workspace} />
        </div>
      ) : (
        <div className="rl-card">
          <Empty title={say('noKeywords')} hint={say('noKeywordsHint')} />
        </div>
      )}
    </>
  )
}

const fetchMovements = (workspace_id: string, day: string | undefined) => (cursor: string | undefined) =>
  dataOf(
    client.GET('/api/batch/movements', {
      params: { query: asked({ workspace_id, day, cursor, limit: 50 }) },
    }),
  )
type Movement = Awaited<ReturnType<ReturnType<typeof fetchMovements>>>['movements'][number]

function Movements({ workspace }: { workspace: string }) {
  const say = useSay()
  const number = useNumber()
  const [{ day }, setFilters] = useFilters()
  const query = useList(['movements', workspace, day], fetchMovements(workspace, day))
  const first = query.data?.pages[0]
  const shown = first?.day ?? day
  const go = (days: number) => shown && setFilters({ day: addDays(shown, days) })
  return (
    <Card
      title={say('movements')}
      note={shown}
      flush
      action={
        <Group gap="xs">
          <Button size="xs" variant="default" onClick={() => go(-1)} disabled={!shown}>
            {say('dayBefore')}
          </Button>
          <Button size="xs" variant="default" onClick={() => go(1)} disabled={!shown || day === undefined}>
            {say('dayAfter')}
          </Button>
        </Group>
      }
    >
      {first && first.shares.length > 0 && (
        <Table
          label={say('shares')}
          rows={first.shares}
          keyOf={seriesOf}
          columns={[
            { head: say('series'), cell: seriesOf },
            { head: say('keywords'), cell: (row) => number(row.keywords), end: true },
            { head: say('top', { n: 3 }), cell: (row) => share(row.top_3, row.keywords), end: true },
            { head: say('top', { n: 10 }), cell: (row) => share(row.top_10, row.keywords), end: true },
            {
              head: say('top', { n: 100 }),
              cell: (row) => share(row.top_100, row.keywords),
              end: true,
              wide: true,
            },
            { head: say('checksFailed'), cell: (row) => number(row.failed), end: true },
          ]}
        />
      )}
      <List
        label={say('movements')}
        query={query}
        rowsOf={(page) => page.movements}
        keyOf={(row) => `${row.keyword} ${seriesOf(row)}`}
        columns={[
          {
            head: say('keyword'),
            cell: (row) => (
              <To
                to={`/keywords/${encodeURIComponent(row.keyword)}?workspace=${encodeURIComponent(workspace)}`}
              >
                {row.keyword}
              </To>
            ),
          },
          { head: say('movement'), cell: (row) => <Moved row={row} /> },
          { head: say('fromTo'), cell: (row) => `${row.from ?? '–'} → ${row.to ?? '–'}`, end: true },
          { head: say('daysApart'), cell: (row) => number(row.days), end: true, wide: true },
          { head: say('series'), cell: seriesOf, wide: true },
        ]}
        empty={<Empty title={say('noMovements')} hint={say('noMovementsHint')} />}
      />
    </Card>
  )
}

function Moved({ row: { change, from, to } }: { row: Movement }) {
  const say = useSay()
  const places = from !== null && to !== null ? `${Math.abs(from - to)} ` : ''
  return (
    <Move up={change === 'rose' || change === 'entered'}>
      {places}
      {say(change)}
    </Move>
  )
}

function Trackers({ workspace }: { workspace: string }) {
  const say = useSay()
  const number = useNumber()
  const query = useList(
    ['trackers', workspace],
    (cursor) =>
      dataOf(
        client.GET('/api/batch/trackers', {
          params: { query: asked({ workspace_id: workspace, cursor, limit: 50 }) },
        }),
      ),
    { everyMs: 15_000 },
  )
  return (
    <Card title={say('trackers')} note={say('trackersHint')} flush>
      <List
        label={say('trackers')}
        query={query}
        rowsOf={(page) => page.trackers}
        keyOf={(row) => row.tracker_id}
        columns={[
          { head: 'ID', cell: (row) => row.tracker_id },
          { head: say('site'), cell: (row) => row.site },
          { head: say('series'), cell: seriesOf, wide: true },
          { head: say('source'), cell: (row) => row.source, wide: true },
          { head: say('checkedToday'), cell: (row) => number(row.checked_today), end: true },
          { head: say('checksFailed'), cell: (row) => number(row.failed_today), end: true },
          {
            head: say('spentToday'),
            cell: (row) => <Spent today={row.spent_today} budget={row.budget_per_day} />,
            end: true,
            wide: true,
          },
          { head: say('nextCheck'), cell: (row) => <When at={row.next_check_at} />, wide: true },
        ]}
        empty={<Empty title={say('noTrackers')} hint={say('noTrackersHint')} />}
      />
    </Card>
  )
}

function Sources({ workspace }: { workspace: string }) {
  const say = useSay()
  const query = useQuery({
    queryKey: ['sources', workspace],
    queryFn: () =>
      dataOf(client.GET('/api/batch/sources', { params: { query: { workspace_id: workspace } } })),
    refetchInterval: 15_000,
  })
  return (
    <Card title={say('sources')} flush>
      <Loaded query={query}>
        {({ sources }) => {
          const others = sources.filter(({ configured }) => !configured).map(({ source }) => source)
          return (
            <>
              <Table
                label={say('sources')}
                rows={sources.filter(({ configured }) => configured)}
                keyOf={(row) => row.source}
                columns={[
                  { head: say('source'), cell: (row) => row.source },
                  { head: say('status'), cell: (row) => <Status of={row.state} /> },
                  {
                    head: say('spentToday'),
                    cell: (row) => <Spent today={row.spent_today} budget={row.budget_per_day} />,
                    end: true,
                  },
                  {
                    head: say('perSecond'),
                    cell: (row) => row.rate_per_second ?? '–',
                    end: true,
                    wide: true,
                  },
                  { head: say('nextCheck'), cell: (row) => <When at={row.next_check_at} />, wide: true },
                  {
                    head: say('lastError'),
                    cell: ({ last_error: error }) =>
                      error ? (
                        <>
                          {error.code} · <When at={error.at} />
                        </>
                      ) : (
                        '–'
                      ),
                    wide: true,
                  },
                ]}
              />
              {others.length > 0 && (
                <Text size="xs" c="dimmed" px={18} py={12}>
                  {say('noKeysFor', { sources: others.join(', ') })}
                </Text>
              )}
            </>
          )
        }}
      </Loaded>
    </Card>
  )
}

function seriesOf({ engine, device, location }: { engine: string; device: string; location: string }) {
  return `${engine} ${device} ${location}`
}

function share(count: number, of: number): string {
  return of === 0 ? '–' : `${count} · ${Math.round((100 * count) / of)}%`
}

function Spent({ today, budget }: { today: number; budget: number | null }) {
  const number = useNumber()
  return <>{budget === null ? number(today) : `${number(today)} / ${number(budget)}`}</>
}

function addDays(day: string, days: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10)
}
