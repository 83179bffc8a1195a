import { refusalsOf } from '../platform/refusal.ts'

/** Every "no" of the batch area. */
export const refuse = refusalsOf({
  invalid_keyword: ['malformed', 'At least one keyword is not acceptable; see details.'],
  keyword_not_found: ['not_found', 'This keyword is not registered in the workspace.'],
  volume_not_found: ['not_found', 'No monthly volume is stored for this keyword.'],
  unknown_task: [
    'malformed',
    'There is no such task; choose train_classifier, predict or aggregate_volumes.',
  ],
  run_in_progress: ['conflict', 'A run of this task is queued or running; wait for it to end.'],
  preconditions_unmet: ['conflict', 'This task cannot start yet; see details.'],
  run_not_found: ['not_found', 'There is no such run.'],
  model_not_found: ['not_found', 'There is no such model.'],
  model_pruned: ['conflict', 'The bytes of this model are no longer kept; train a new one.'],
  model_not_active: ['conflict', 'This model is not the active one.'],
  prediction_not_found: ['not_found', 'There is no prediction for this keyword.'],
})
