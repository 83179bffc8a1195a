import type { Day } from '../../platform/time.ts'

export const trendIntervals = ['date', 'week', 'month'] as const
export type TrendInterval = (typeof trendIntervals)[number]

/** What a source last told of a keyword's course: one answer, with the span that its scale was drawn from. */
export type StoredTrend = {
  readonly key: string
  readonly source: string
  readonly every: TrendInterval
  readonly from: Day
  readonly to: Day
  readonly values: readonly { readonly period: Day; readonly ratio: number }[]
  readonly askedOn: Day
}
