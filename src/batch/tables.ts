import type { ColumnType, Generated, JSONColumnType } from 'kysely'
import type { ClassName, ModelStatus } from './models/manifest.ts'
import type { RankStatus } from './ranks/rank.ts'
import type { RunStatus, RunTask, RunTrigger } from './runs/run.ts'
import type { MatchMode } from './tracking/site.ts'
import type { Every } from './tracking/tracker.ts'
import type { TrendInterval } from './trends/trend.ts'
import type { VolumeKind, VolumeQuality } from './volumes/monthly-volume.ts'

/** Batch's own tables, as rows. They become domain values in the `-rows.ts` files and nowhere else. */
export type BatchTables = {
  'batch.keyword': {
    workspace_id: string
    key: string
    id: Generated<bigint>
    display: string
    created_at: Date
    removed_at: Date | null
  }
  'batch.rank': {
    workspace_id: string
    keyword_id: bigint
    day: string
    engine: string
    device: string
    location: string
    status: RankStatus
    position: number | null
    searched_depth: number
    mean_position: number | null
    url: string | null
    reason: string | null
    checked_at: Date
    revision: Generated<number>
  }
  'batch.volume_observation': {
    key: string
    source: string
    day: string
    kind: VolumeKind
    volume: bigint | null
    volume_max: bigint | null
    pc: bigint | null
    mobile: bigint | null
    revision: Generated<number>
  }
  'batch.dirty_month': {
    key: string
    source: string
    month: string
    mark: Generated<bigint>
  }
  'batch.monthly_volume': {
    key: string
    source: string
    month: ColumnType<string>
    volume: bigint | null
    volume_min: bigint
    volume_max: bigint
    quality: VolumeQuality
    days_observed: number
    at_month_end: number | null
    updated_at: Date
  }
  'batch.keyword_trend': {
    key: string
    source: string
    every: TrendInterval
    from_day: string
    to_day: string
    series: JSONColumnType<[string, number][]>
    asked_on: string
  }
  'batch.import_progress': {
    id: string
    bytes: bigint
    lines: bigint
    inserted: bigint
    updated: bigint
    unchanged: bigint
    rejected: bigint
    rejects_bytes: bigint
    updated_at: Date
  }
  'batch.run': {
    id: string
    task: RunTask
    trigger: RunTrigger
    status: RunStatus
    queued_at: Date
    started_at: Date | null
    finished_at: Date | null
    progress: Generated<number>
    error_code: string | null
    model_id: string | null
    metrics: Record<string, unknown> | null
    takes: Generated<number>
    by_tenant: Generated<boolean>
    leased_until: Date
  }
  'batch.schedule': { task: RunTask; cron: string; zone: string; next_at: Date }
  'batch.model': {
    id: string
    task: RunTask
    version: number
    status: ModelStatus
    status_history: JSONColumnType<{ status: ModelStatus; at: string }[]>
    run_id: string
    manifest: JSONColumnType<Record<string, unknown>>
    artifact: Buffer | null
    artifact_sha256: string
    judged: Buffer | null
    judged_sha256: string
    samples: JSONColumnType<Record<string, unknown>>
    revision: Generated<number>
    created_at: Date
    activated_at: Date | null
  }
  'batch.live_quality': {
    model_id: string
    day: string
    examples: number
    loss: number
    prior_loss: number
    naive_loss: number
  }
  'batch.prediction': {
    workspace_id: string
    keyword_id: bigint
    engine: string
    device: string
    location: string
    day: string
    model_id: string
    horizon_days: number
    rise: number
    hold: number
    fall: number
    predicted: ClassName
    usable_days: number
    naive_sign: number
    features: string[]
    contributions: number[]
    predicted_at: Date
    outcome: ClassName | null
    settled_at: Date | null
  }
  'batch.tracker': {
    workspace_id: string
    id: string
    site: string
    match: MatchMode
    engine: string
    device: string
    location: string
    language: string | null
    depth: number
    source: string
    every: Every
    window_from: string
    window_to: string
    zone: string
    keyword_keys: string[] | null
    keyword_texts: string[] | null
    budget_per_day: number | null
    anchor_day: string
    next_day: string
    next_plan_at: Date
    last_check_at: Date | null
    created_at: Date
  }
}
