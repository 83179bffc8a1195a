export const runTasks = [
  'train_classifier',
  'predict',
  'aggregate_volumes',
  'collect_ranks',
  'collect_volumes',
] as const
export type RunTask = (typeof runTasks)[number]

export const runStatuses = ['queued', 'running', 'succeeded', 'failed', 'skipped'] as const
export type RunStatus = (typeof runStatuses)[number]

export const runTriggers = ['manual', 'schedule'] as const
export type RunTrigger = (typeof runTriggers)[number]

/** One execution of a task. */
export type Run = {
  readonly id: string
  readonly task: RunTask
  readonly trigger: RunTrigger
  readonly status: RunStatus
  readonly queuedAt: Date
  readonly startedAt: Date | null
  readonly finishedAt: Date | null
  /** The share of the work that is done, from 0 to 1. */
  readonly progress: number
  readonly error: RunError | null
  readonly modelId: string | null
  readonly metrics: Record<string, unknown> | null
}

/** Why a run failed or was skipped, one sentence each. */
export const runErrors = {
  insufficient_labels: 'The rank history does not tell of two different outcomes yet.',
  no_active_model: 'No model is active.',
  not_enough_rows: 'The rank history holds fewer rows than training needs.',
  run_in_progress: 'A run of this task was queued or running already.',
  no_source: 'No source of ranks or volumes is set up; set the keys of one and restart.',
  worker_lost: 'Every worker that started or resumed this run was lost.',
  corrupt_model: 'The active model cannot be read; run `rankledger check-model`.',
  other_features:
    'The active model was trained on other features than this release works out; train a new one.',
  internal_error: 'The run failed for a reason that the log tells.',
} as const

export type RunError = keyof typeof runErrors

/** The task a caller means, under its own name or its short one. */
export function taskNamed(name: string): RunTask | undefined {
  if (name === 'classifier') return 'train_classifier'
  return runTasks.find((task) => task === name)
}

/** The run cannot come to a good end, however often it is tried. */
export class RunFailed extends Error {
  override readonly name = 'RunFailed'
  readonly code: RunError

  constructor(code: RunError) {
    super(runErrors[code])
    this.code = code
  }
}
