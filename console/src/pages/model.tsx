import { Button, Skeleton, Text } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { lazy, Suspense, useState } from 'react'
import { client, dataOf } from '../api/client.ts'
import { useMay } from '../api/session.ts'
import { Confirm, useAct } from '../ui/act.tsx'
import { useNumber } from '../ui/formats.ts'
import { useSay } from '../ui/language.tsx'
import { Loaded } from '../ui/load-parts.tsx'
import { Card, Facts, Figure, PageHead } from '../ui/page-parts.tsx'
import { Table } from '../ui/table.tsx'
import { Id, Status, When } from '../ui/value-parts.tsx'
import { Confusion, Importances } from './model-insight.tsx'

const ReliabilityChart = lazy(async () => ({ default: (await import('../ui/charts.tsx')).ReliabilityChart }))

type Figures = {
  examples: number
  log_loss: number
  accuracy: number
  calibration_error: number
  confusion?: number[][]
  reliability: { mean_probability: number; hit_share: number; examples: number }[]
}
type Metrics = {
  holdout: Figures
  baseline_prior: Figures
  baseline_naive: { rule: string; log_loss: number }
  active_same_holdout: Figures | null
  rungs: { name: string; holdout: Figures }[]
  importances?: { feature: string; loss_increase: number }[]
}

const fetchOne = (id: string) =>
  dataOf(client.GET('/api/batch/models/{model_id}', { params: { path: { model_id: id } } }))
type One = Awaited<ReturnType<typeof fetchOne>>

export function Model() {
  const { id } = useParams({ strict: false }) as { id: string }
  const query = useQuery({ queryKey: ['model', id], queryFn: () => fetchOne(id) })
  return (
    <Loaded query={query} rows={12}>
      {(one) => <Shown one={one} />}
    </Loaded>
  )
}

function Shown({ one }: { one: One }) {
  const say = useSay()
  const may = useMay()
  const number = useNumber()
  const [open, setOpen] = useState<'activate' | 'retire'>()
  const act = useAct(
    (verb: 'activate' | 'retire') =>
      verb === 'activate'
        ? dataOf(
            client.POST('/api/batch/models/{model_id}/activate', {
              params: { path: { model_id: one.model_id } },
            }),
          )
        : dataOf(
            client.POST('/api/batch/models/{model_id}/retire', {
              params: { path: { model_id: one.model_id } },
            }),
          ),
    { onDone: () => setOpen(undefined) },
  )
  const metrics = one.metrics as unknown as Metrics
  const data = one.data as {
    rows: number
    examples: number
    keywords: number
    first_day: string
    last_day: string
    holdout_from: string
    rows_stored?: number
    keywords_kept?: number
  }
  // Of a long history a sample is read.
  const rows =
    (data.keywords_kept ?? 1) < 1
      ? `${number(data.rows)} / ${number(data.rows_stored ?? data.rows)}`
      : number(data.rows)
  const gate = one.gate as {
    decision: string
    checks: { name?: string; check?: string; passed?: boolean; ok?: boolean }[]
  }
  const three = (value: number | undefined | null) =>
    value === undefined || value === null
      ? '–'
      : number(value, { minimumFractionDigits: 3, maximumFractionDigits: 3 })
  const best = Math.min(metrics.baseline_prior.log_loss, metrics.baseline_naive.log_loss)
  const isStored = (one.artifact as { stored?: boolean }).stored !== false
  return (
    <>
      <PageHead title={`${say('model')} v${one.version}`} note={<Id of={one.model_id} copy />}>
        {may('admin') && one.status === 'active' && (
          <Button size="xs" variant="default" onClick={() => setOpen('retire')}>
            {say('retire')}
          </Button>
        )}
        {may('admin') && one.status !== 'active' && isStored && (
          <Button size="xs" onClick={() => setOpen('activate')}>
            {say('activate')}
          </Button>
        )}
      </PageHead>
      <div className="rl-stack">
        <div className="rl-grid">
          <Figure
            label={say('logLoss')}
            value={three(metrics.holdout.log_loss)}
            note={`${say('skill')} ${three(best - metrics.holdout.log_loss)}`}
          />
          <Figure
            label={say('accuracy')}
            value={number(metrics.holdout.accuracy, { style: 'percent', maximumFractionDigits: 1 })}
            note={`${number(metrics.holdout.examples)} ${say('examples').toLowerCase()}`}
          />
          <Figure label={say('calibration')} value={three(metrics.holdout.calibration_error)} />
          <Figure
            label={say('liveQuality')}
            value={three(one.live_quality?.log_loss)}
            note={
              one.live_quality
                ? `${number(one.live_quality.examples)} ${say('examples').toLowerCase()}`
                : say('none')
            }
          />
        </div>
        <div className="rl-grid-wide">
          <Card title={say('reliability')} note={say('reliabilityHint')}>
            <Suspense fallback={<Skeleton h={240} />}>
              <ReliabilityChart
                label={say('reliability')}
                promised={say('promised')}
                came={say('came')}
                data={metrics.holdout.reliability.map((bin) => ({
                  promised: bin.mean_probability,
                  came: bin.hit_share,
                  even: bin.mean_probability,
                }))}
              />
            </Suspense>
          </Card>
          <Card title={say('ladder')} flush>
            <Table
              label={say('ladder')}
              rows={[
                ...metrics.rungs.map(({ name, holdout }) => ({
                  name,
                  loss: holdout.log_loss,
                  accuracy: holdout.accuracy as number | undefined,
                })),
                {
                  name: `${say('baseline')} (${metrics.baseline_naive.rule.replaceAll('_', ' ')})`,
                  loss: metrics.baseline_naive.log_loss,
                  accuracy: undefined,
                },
                ...(metrics.active_same_holdout
                  ? [
                      {
                        name: say('compareActive'),
                        loss: metrics.active_same_holdout.log_loss,
                        accuracy: metrics.active_same_holdout.accuracy,
                      },
                    ]
                  : []),
              ]}
              keyOf={(row) => row.name}
              columns={[
                {
                  head: say('algorithm'),
                  cell: (row) =>
                    row.name === one.algorithm['name'] ? <strong>{row.name}</strong> : row.name,
                },
                { head: say('logLoss'), cell: (row) => three(row.loss), end: true },
                {
                  head: say('accuracy'),
                  cell: (row) =>
                    row.accuracy === undefined
                      ? '–'
                      : number(row.accuracy, { style: 'percent', maximumFractionDigits: 1 }),
                  end: true,
                },
              ]}
            />
          </Card>
        </div>
        {metrics.holdout.confusion && metrics.importances && (
          <div className="rl-grid-wide">
            <Confusion
              classes={(one.label as { classes: string[] }).classes}
              counts={metrics.holdout.confusion}
            />
            <Importances of={metrics.importances} />
          </div>
        )}
        <Card title={say('manifest')}>
          <Facts
            of={[
              [say('status'), <Status key="s" of={one.status} />],
              [say('algorithm'), String(one.algorithm['name'])],
              [say('gate'), gate.decision],
              [say('rankRows'), `${rows} · ${number(data.keywords)} ${say('keywords').toLowerCase()}`],
              [say('period'), `${data.first_day} – ${data.last_day}`],
              [
                'SHA-256',
                <span key="h" className="rl-id">
                  {String((one.artifact as { sha256: string }).sha256)}
                </span>,
              ],
              [say('created'), <When key="c" at={one.created_at} />],
            ]}
          />
        </Card>
      </div>
      <Confirm
        opened={open !== undefined}
        onClose={() => setOpen(undefined)}
        title={say(open ?? 'activate')}
        yes={say(open ?? 'activate')}
        danger={open === 'retire'}
        busy={act.isPending}
        onYes={() => open && act.mutate(open)}
      >
        <Text size="sm">{say(open === 'retire' ? 'retireSays' : 'activateSays')}</Text>
      </Confirm>
    </>
  )
}
