import { Progress } from '@mantine/core'
import { useNumber } from '../ui/formats.ts'
import { useSay } from '../ui/language.tsx'
import { Card } from '../ui/page-parts.tsx'
import { Table } from '../ui/table.tsx'

/** What happened against what was thought most probable, as shares of what happened. */
export function Confusion({ classes, counts }: { classes: readonly string[]; counts: number[][] }) {
  const say = useSay()
  const number = useNumber()
  const named = (name: string) => (name === 'rise' || name === 'hold' || name === 'fall' ? say(name) : name)
  const rows = classes.map((name, at) => ({ name, counts: counts[at] ?? [] }))
  const all = ({ counts }: { counts: number[] }) => counts.reduce((sum, count) => sum + count, 0)
  return (
    <Card title={say('confusion')} note={say('confusionHint')} flush>
      <Table
        label={say('confusion')}
        rows={rows}
        keyOf={({ name }) => name}
        columns={[
          { head: say('happened'), cell: ({ name }) => named(name) },
          ...classes.map((name, at) => ({
            head: `${say('thought')}: ${named(name)}`,
            cell: (row: (typeof rows)[number]) => {
              const count = row.counts[at] ?? 0
              const share = number(count / Math.max(1, all(row)), {
                style: 'percent',
                maximumFractionDigits: 0,
              })
              const text = `${number(count)} · ${share}`
              return row.name === name ? <strong>{text}</strong> : text
            },
            end: true,
          })),
        ]}
      />
    </Card>
  )
}

const shownFeatures = 8

/** The features that the model owes most to. */
export function Importances({ of }: { of: readonly { feature: string; loss_increase: number }[] }) {
  const say = useSay()
  const number = useNumber()
  const most = Math.max(of[0]?.loss_increase ?? 0, Number.EPSILON)
  return (
    <Card title={say('importances')} note={say('importancesHint')} flush>
      <Table
        label={say('importances')}
        rows={of.slice(0, shownFeatures)}
        keyOf={({ feature }) => feature}
        columns={[
          { head: say('feature'), cell: ({ feature }) => feature.replaceAll('_', ' ') },
          {
            head: '',
            cell: ({ feature, loss_increase }) => (
              <Progress w={120} aria-label={feature} value={Math.max(0, (100 * loss_increase) / most)} />
            ),
          },
          {
            head: say('lossIncrease'),
            cell: ({ loss_increase }) => number(loss_increase, { maximumFractionDigits: 4 }),
            end: true,
          },
        ]}
      />
    </Card>
  )
}
