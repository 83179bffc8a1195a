import { Progress, Skeleton, Text } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { ApiError, client, dataOf } from '../api/client.ts'
import { addDays, daysBetween, newestRanks, type Rank } from '../api/rank-history.ts'
import { useNumber, useTime } from '../ui/formats.ts'
import { useSay } from '../ui/language.tsx'
import { Empty, Loaded, Waiting } from '../ui/load-parts.tsx'
import { Card, PageHead } from '../ui/page-parts.tsx'
import { To } from '../ui/value-parts.tsx'
import { useWorkspace, WorkspaceField } from '../ui/workspace.tsx'

const RankChart = lazy(async () => ({ default: (await import('../ui/charts.tsx')).RankChart }))
const VolumeChart = lazy(async () => ({ default: (await import('../ui/charts.tsx')).VolumeChart }))

export function Keyword() {
  const say = useSay()
  const { keyword } = useParams({ strict: false }) as { keyword: string }
  const { workspace, isLoading } = useWorkspace()
  return (
    <>
      <PageHead
        title={keyword}
        note={<To to={`/keywords?workspace=${workspace ?? ''}`}>{workspace ?? say('keywords')}</To>}
      >
        <WorkspaceField />
      </PageHead>
      {isLoading ? (
        <Waiting rows={6} />
      ) : !workspace ? (
        <Empty title={say('noKeywords')} />
      ) : (
        <div className="rl-stack">
          <Ranks keyword={keyword} workspace={workspace} />
          <div className="rl-grid-wide">
            <Volumes keyword={keyword} workspace={workspace} />
            <Prediction keyword={keyword} workspace={workspace} />
          </div>
        </div>
      )}
    </>
  )
}

type Props = { keyword: string; workspace: string }

/** What is not there is an answer too, and no reason to ask again. */
const orNull = <T,>(asked: Promise<T>): Promise<T | null> =>
  asked.catch((error: unknown) => {
    if (error instanceof ApiError && error.status === 404) return null
    throw error
  })

const colors = ['indigo.5', 'teal.6', 'orange.6', 'grape.5']

function Ranks({ keyword, workspace }: Props) {
  const say = useSay()
  const number = useNumber()
  const time = useTime()
  const query = useQuery({
    queryKey: ['ranks', workspace, keyword],
    queryFn: () => orNull(newestRanks({ keyword, workspace })),
  })
  const dayName = (day: string) => time(`${day}T00:00:00`, 'day')
  return (
    <Card title={say('rankHistory')} note={say('rankGap')}>
      <Loaded query={query}>
        {(found) => {
          const first = found?.ranks[0]?.day
          const last = found?.ranks.at(-1)?.day
          if (!found || !first || !last) return <Empty title={say('noRanks')} />
          const names = [...new Set(found.ranks.map(nameOf))]
          return (
            <>
              <Suspense fallback={<Skeleton h={260} />}>
                <RankChart
                  label={`${say('rankHistory')}: ${keyword}`}
                  data={rowsOf(found.ranks, names)}
                  series={names.map((name, at) => ({ name, color: colors[at % colors.length]! }))}
                />
              </Suspense>
              <Text size="xs" c="dimmed">
                {say('newestDay', { day: dayName(last) })}
              </Text>
              {found.isCut && (
                <Text size="xs" role="status">
                  {say('rankCut', { day: dayName(first) })}
                </Text>
              )}
              {found.best?.map((best) => (
                <Text key={nameOf(best)} size="xs" c="dimmed">
                  {say('bestEver', {
                    series: nameOf(best),
                    n: number(best.mean_position ?? best.position),
                    day: dayName(best.day),
                  })}
                </Text>
              ))}
            </>
          )
        }}
      </Loaded>
    </Card>
  )
}

function nameOf({ engine, device, location }: Pick<Rank, 'engine' | 'device' | 'location'>): string {
  return `${engine} ${device} ${location}`
}

/** One row for every day from the first to the last, also for those that nobody checked. */
function rowsOf(ranks: readonly Rank[], names: readonly string[]) {
  const first = ranks[0]!.day
  const count = daysBetween(first, ranks.at(-1)!.day) + 1
  const empty = Object.fromEntries(names.map((name) => [name, null]))
  const rows = Array.from({ length: count }, (_, at) => {
    const day = addDays(first, at)
    return { day, row: { ...empty, day: day.slice(5) } as Record<string, string | number | null> }
  })
  const rowOf = new Map(rows.map(({ day, row }) => [day, row]))
  for (const rank of ranks) rowOf.get(rank.day)![nameOf(rank)] = rank.position
  return rows.map(({ row }) => row)
}

function Volumes({ keyword, workspace }: Props) {
  const say = useSay()
  const number = useNumber()
  const query = useQuery({
    queryKey: ['volumes', workspace, keyword],
    queryFn: () =>
      orNull(
        dataOf(
          client.GET('/api/batch/volumes/{keyword}', {
            params: { path: { keyword }, query: { workspace_id: workspace } },
          }),
        ),
      ),
  })
  return (
    <Card
      title={say('monthlyVolume')}
      note={query.data?.average_12m ? say('average12', { n: number(query.data.average_12m) }) : undefined}
    >
      <Loaded query={query}>
        {(found) => {
          if (!found) return <Empty title={say('noVolume')} />
          const data = found.months.slice(-16).map((month) => ({
            month: month.month,
            volume: month.volume,
            low: month.volume_min,
            high: month.volume_max,
          }))
          return (
            <Suspense fallback={<Skeleton h={220} />}>
              <VolumeChart
                label={`${say('monthlyVolume')}: ${keyword}`}
                data={data}
                format={(value) => number(value)}
                series={[
                  { name: 'low', label: `${say('range')} ↓`, color: 'gray.5' },
                  { name: 'high', label: `${say('range')} ↑`, color: 'gray.5' },
                  { name: 'volume', label: say('monthlyVolume'), color: 'indigo.5' },
                ]}
              />
            </Suspense>
          )
        }}
      </Loaded>
    </Card>
  )
}

function Prediction({ keyword, workspace }: Props) {
  const say = useSay()
  const number = useNumber()
  const time = useTime()
  const query = useQuery({
    queryKey: ['prediction', workspace, keyword],
    queryFn: () =>
      orNull(
        dataOf(
          client.GET('/api/batch/predictions/{keyword}', {
            params: { path: { keyword }, query: { workspace_id: workspace } },
          }),
        ),
      ),
  })
  return (
    <Card
      title={say('prediction')}
      note={
        query.data
          ? say('within', { days: query.data.horizon_days, day: time(`${query.data.day}T00:00:00`, 'day') })
          : undefined
      }
    >
      <Loaded query={query}>
        {(found) => {
          if (!found) return <Empty title={say('noPrediction')} />
          return (
            <div style={{ display: 'grid', gap: 12 }}>
              {(['rise', 'hold', 'fall'] as const).map((name) => (
                <div key={name}>
                  <Text size="sm" fw={found.predicted === name ? 650 : 400} mb={4}>
                    {say(name)} ·{' '}
                    {number(found.probabilities[name], { style: 'percent', maximumFractionDigits: 1 })}
                  </Text>
                  <Progress
                    value={found.probabilities[name] * 100}
                    color={{ rise: 'teal', hold: 'indigo', fall: 'orange' }[name]}
                    aria-label={say(name)}
                  />
                </div>
              ))}
              {found.moved_by.length > 0 && (
                <Text size="xs" c="dimmed">
                  {say('movedBy')}:{' '}
                  {found.moved_by
                    .slice(0, 3)
                    .map(
                      ({ feature, contribution }) =>
                        `${feature.replaceAll('_', ' ')} (${number(contribution, { maximumFractionDigits: 2, signDisplay: 'always' })})`,
                    )
                    .join(', ')}
                </Text>
              )}
              <Text size="xs">
                <To to={`/models/${found.model_id}`}>{say('model')}</To>
              </Text>
            </div>
          )
        }}
      </Loaded>
    </Card>
  )
}
