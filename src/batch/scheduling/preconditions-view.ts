import Type from 'typebox'
import type { RankCounts } from '../ranks/rank-count-rows.ts'
import { rankRowsRequired } from './trigger-run.ts'

/** What training has to go on, as callers see it. */
export const PreconditionsView = Type.Object(
  {
    rank_rows: Type.Integer(),
    rank_rows_required: Type.Integer(),
    usable_rows: Type.Integer(),
    days: Type.Integer(),
  },
  { title: 'Preconditions' },
)

export function preconditionsView({ rows, usableRows, days }: RankCounts) {
  return { rank_rows: rows, rank_rows_required: rankRowsRequired, usable_rows: usableRows, days }
}
