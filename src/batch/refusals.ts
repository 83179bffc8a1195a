import { type Refusal, refusalsOf, refuseRequest } from '../platform/refusal.ts'

/** Every "no" of the batch area. */
export const refuse = refusalsOf({
  invalid_keyword: ['malformed', 'At least one keyword is not acceptable; see details.'],
  keyword_not_found: ['not_found', 'This keyword is not registered in the workspace.'],
  volume_not_found: ['not_found', 'No monthly volume is stored for this keyword.'],
  trend_not_found: ['not_found', 'No trend is stored for this keyword.'],
  unknown_task: [
    'malformed',
    'There is no such task; choose train_classifier, predict, aggregate_volumes, collect_ranks or collect_volumes.',
  ],
  run_in_progress: ['conflict', 'A run of this task is queued or running; wait for it to end.'],
  preconditions_unmet: ['conflict', 'This task cannot start yet; see details.'],
  run_not_found: ['not_found', 'There is no such run.'],
  model_not_found: ['not_found', 'There is no such model.'],
  model_pruned: ['conflict', 'The bytes of this model are no longer kept; train a new one.'],
  model_not_active: ['conflict', 'This model is not the active one.'],
  tracker_not_found: ['not_found', 'There is no such tracker in the workspace.'],
  series_taken: [
    'conflict',
    'Another tracker of this workspace writes that engine, device and location; change or delete it first.',
  ],
  source_not_configured: [
    'unprocessable',
    'This source is not set up here; see GET /api/batch/sources for those that are.',
  ],
  engine_not_supported: ['unprocessable', 'This source does not know that engine; see details.'],
  device_not_supported: ['unprocessable', 'This source does not know that device; see details.'],
  location_not_supported: ['unprocessable', 'This source does not know that place; see details.'],
  depth_not_supported: ['unprocessable', 'This source does not reach that deep; see details.'],
  budget_exhausted: ['conflict', 'What may be spent today does not suffice for these checks; see details.'],
  prediction_not_found: ['not_found', 'There is no prediction for this keyword.'],
})

/** Of a request whose form is right: one of its values makes no sense. */
export function invalid(path: string, code: string, message: string): Refusal {
  return refuseRequest('validation_failed', { details: [{ path, code, message }] })
}
