import { threadScript } from '../../platform/package-files.ts'
import { buffersOf, type History } from '../dataset/history.ts'
import { type ThreadOptions, workInThread } from '../runs/work-in-thread.ts'
import type { MadeModel, MakeRequest } from './make-model.ts'

export type TrainingWork = { history: History; request: MakeRequest }

/** Trains in a thread of its own. The history moves there and is gone here. */
export async function trainInThread(
  history: History,
  request: MakeRequest,
  options: Omit<ThreadOptions, 'transfer'> = {},
): Promise<MadeModel> {
  const work: TrainingWork = { history, request }
  return workInThread(threadScript('train'), work, {
    ...options,
    transfer: buffersOf(history),
  })
}
