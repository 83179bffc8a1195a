import { BarChart, LineChart } from '@mantine/charts'
import { Text } from '@mantine/core'

const axis = { tick: { fontSize: 11, fill: 'var(--mantine-color-dimmed)' } }

/** Money by day: what came in, and what went back. */
export function DayChart({
  data,
  series,
  format,
  label,
}: {
  data: Record<string, number | string>[]
  series: { name: string; label: string; color: string }[]
  format: (value: number) => string
  label: string
}) {
  return (
    <div role="img" aria-label={label}>
      <BarChart
        h={220}
        data={data}
        dataKey="day"
        series={series}
        valueFormatter={format}
        gridAxis="x"
        tickLine="none"
        xAxisProps={axis}
        yAxisProps={{ ...axis, width: 78 }}
        barProps={{ radius: 2, isAnimationActive: false }}
        maxBarWidth={22}
      />
    </div>
  )
}

/** Places in a list: the best one stands on top, and a failed check is a gap. */
export function RankChart({
  data,
  series,
  label,
}: {
  data: Record<string, number | string | null>[]
  series: { name: string; color: string }[]
  label: string
}) {
  return (
    <div role="img" aria-label={label}>
      <LineChart
        h={260}
        data={data}
        dataKey="day"
        series={series}
        connectNulls={false}
        curveType="linear"
        // A day between two gaps has no line, only its dot.
        dotProps={{ r: data.length < 40 ? 2 : 1 }}
        strokeWidth={1.8}
        gridAxis="x"
        tickLine="none"
        // The names of more would leave no room for the lines; pointing at a day tells them too.
        withLegend={series.length > 1 && series.length <= 12}
        xAxisProps={axis}
        yAxisProps={{ ...axis, reversed: true, domain: [1, 'dataMax'], allowDecimals: false, width: 34 }}
        lineProps={{ isAnimationActive: false }}
      />
    </div>
  )
}

export function VolumeChart({
  data,
  format,
  label,
  series,
}: {
  data: Record<string, number | string | null>[]
  format: (value: number) => string
  label: string
  series: { name: string; label: string; color: string }[]
}) {
  return (
    <div role="img" aria-label={label}>
      <LineChart
        h={220}
        data={data}
        dataKey="month"
        series={series}
        valueFormatter={format}
        connectNulls={false}
        curveType="monotone"
        gridAxis="x"
        tickLine="none"
        withLegend
        dotProps={{ r: 2.5 }}
        xAxisProps={axis}
        yAxisProps={{ ...axis, width: 56 }}
        lineProps={{ isAnimationActive: false }}
      />
    </div>
  )
}

/** Promise against outcome; on the diagonal every promise is kept. */
export function ReliabilityChart({
  data,
  promised,
  came,
  label,
}: {
  data: { promised: number; came: number; even: number }[]
  promised: string
  came: string
  label: string
}) {
  const percent = (value: number) => `${Math.round(value * 100)} %`
  return (
    <div role="img" aria-label={label}>
      <LineChart
        h={240}
        data={data}
        dataKey="promised"
        series={[
          { name: 'came', label: came, color: 'indigo.6' },
          { name: 'even', label: '=', color: 'gray.5', strokeDasharray: '4 4' },
        ]}
        valueFormatter={percent}
        curveType="linear"
        gridAxis="xy"
        tickLine="none"
        xAxisProps={{ ...axis, type: 'number', domain: [0, 1], tickFormatter: percent }}
        yAxisProps={{ ...axis, domain: [0, 1], tickFormatter: percent, width: 54 }}
        lineProps={{ isAnimationActive: false }}
      />
      <Text size="xs" c="dimmed" ta="center">
        {promised}
      </Text>
    </div>
  )
}
