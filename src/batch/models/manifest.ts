import type { RunTask } from '../runs/run.ts'

export const modelStatuses = ['candidate', 'active', 'retired', 'rejected'] as const
export type ModelStatus = (typeof modelStatuses)[number]

/** What a classifier tells apart, in the order of its probabilities. */
export const classes = ['rise', 'hold', 'fall'] as const
export type ClassName = (typeof classes)[number]

/** A model's record of how and from what it was made, in the words in which it is stored and shown. */
export type Manifest = {
  algorithm: { name: string; params: Record<string, unknown>; seed: number }
  label: {
    classes: readonly string[]
    horizon_days: number
    /** A move counts from this share and this many places upwards. */
    least_share: number
    least_places: number
    /** Both ends of a move are medians over as many days. */
    median_days: number
  }
  features: readonly string[]
  data: {
    /** The usable ranks that were read, and the keywords that they are of. */
    rows: number
    examples: number
    keywords: number
    /** The usable ranks that there were, about; absent in models made before a sample could be read, whose ranks are all. */
    rows_stored?: number
    /** The share of the keywords that was read: below 1 where there were more ranks than a training reads. */
    keywords_kept?: number
    first_day: string
    last_day: string
    holdout_from: string
    /** The share of each keyword's days that was learnt from: below 1 where there were more ranks than a training takes. */
    days_kept: number
    /** Stands for all that was read; of its two parts, the ranks and the volumes. */
    snapshot_sha256: string
    ranks_sha256: string
    volumes_sha256: string
  }
  metrics: {
    holdout: JudgedFigures
    baseline_prior: JudgedFigures
    baseline_naive: NaiveFigures
    active_same_holdout: JudgedFigures | null
    rungs: RungFigures[]
    /** By how much the loss on the hold-out grows without what a feature says, the dearest first; absent in models made before it was measured. */
    importances?: { feature: string; loss_increase: number }[]
  }
  /** What anybody could say without a model, learnt from the same rows: live quality is held against it. */
  rivals: { class_shares: number[]; naive: { rule: string; shares: number[][] } }
  gate: {
    decision: 'promote' | 'reject' | 'fall_back'
    checks: Record<string, unknown>[]
    /** Checks for which the hold-out has too few rows. */
    not_applied: string[]
    /** The active model at that time; null: there was none. */
    compared_with: string | null
    /** Why the active model could not be compared with; null: it could, or there was none. */
    not_comparable: string | null
  }
  calibration: { method: 'temperature' | 'none'; temperature: number; error: number; limit: number }
  artifact: { bytes: number; sha256: string; format: string }
  environment: Record<string, string>
}

/** How good probabilities were on the hold-out. */
export type Figures = {
  examples: number
  log_loss: number
  accuracy: number
  auc_ovr: number | null
  auc_rise_fall: number | null
  calibration_error: number
  /** Rows by the probability of their most probable class, and how often it came. */
  reliability: {
    from: number
    to: number
    examples: number
    mean_probability: number
    hit_share: number
  }[]
}

/** The loss on rows that were ranked at both ends; null without any. */
export type RankedLoss = { examples: number; log_loss: number | null }

export type JudgedFigures = Figures & {
  ranked: RankedLoss
  /** Rows by what happened, and within that by the most probable class; absent in models made before it was counted. */
  confusion?: number[][]
}

/** The best of the naive rules, on all rows and on ranked ones, and every one of them. */
export type NaiveFigures = {
  rule: string
  examples: number
  log_loss: number
  ranked: RankedLoss & { rule: string }
  rules: { rule: string; log_loss: number; ranked_log_loss: number | null }[]
}

export type RungFigures = { name: string; validation_log_loss: number | null; holdout: Figures }

/** A model as the registry has it, without its bytes. */
export type RegisteredModel = {
  readonly id: string
  readonly task: RunTask
  readonly version: number
  readonly status: ModelStatus
  readonly statusHistory: readonly { status: ModelStatus; at: string }[]
  readonly runId: string
  readonly manifest: Manifest
  readonly createdAt: Date
  readonly activatedAt: Date | null
  /** Each change of what this shows adds one. */
  readonly revision: number
  /** False: its artifact was pruned, and only training it again brings it back. */
  readonly stored: boolean
  /** How past predictions turned out; null until the horizon of one has passed. */
  readonly live: (LiveQuality & { recent: LiveQuality }) | null
}

/** Mean log-losses on past predictions whose outcome is known, beside what its rivals would have lost on them. */
export type LiveQuality = {
  readonly examples: number
  readonly logLoss: number
  readonly priorLogLoss: number
  readonly naiveLogLoss: number
  /** The day of the newest of them. */
  readonly until: string
}

/** How much better than the better of its rivals. */
export function skillOf({ logLoss, priorLogLoss, naiveLogLoss }: LiveQuality): number {
  return Math.min(priorLogLoss, naiveLogLoss) - logLoss
}

/** The same of the hold-out on which the gate judged it. */
export function holdoutSkillOf({ metrics }: Manifest): number {
  return Math.min(metrics.baseline_prior.log_loss, metrics.baseline_naive.log_loss) - metrics.holdout.log_loss
}

/** Rows with the probabilities that the artifact gave them when it was made. A missing value is null. */
export type Samples = { rows: (number | null)[][]; probabilities: number[][] }

/** The manifest as callers and files have it. */
export function renderManifest(model: RegisteredModel, renderInstant: (at: Date) => string) {
  const { algorithm, label, features, data, metrics, rivals, gate, calibration, artifact, environment } =
    model.manifest
  return {
    model_id: model.id,
    task: model.task,
    version: model.version,
    status: model.status,
    status_history: model.statusHistory.map(({ status, at }) => ({
      status,
      at: renderInstant(new Date(at)),
    })),
    run_id: model.runId,
    algorithm,
    label,
    features: [...features],
    data,
    metrics,
    rivals,
    gate,
    calibration,
    artifact: { ...artifact, stored: model.stored },
    environment,
    created_at: renderInstant(model.createdAt),
    activated_at: model.activatedAt === null ? null : renderInstant(model.activatedAt),
    live_quality: model.live && { ...renderLive(model.live), last_28_days: renderLive(model.live.recent) },
  }
}

function renderLive(live: LiveQuality) {
  return {
    examples: live.examples,
    log_loss: live.logLoss,
    baseline_prior_log_loss: live.priorLogLoss,
    baseline_naive_log_loss: live.naiveLogLoss,
    skill: skillOf(live),
    until: live.until,
  }
}
