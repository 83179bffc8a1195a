import { availableParallelism } from 'node:os'
import { threadScript } from '../../platform/package-files.ts'
import type { Model } from '../models/model.ts'
import { answerFromThread, workInThread } from '../runs/work-in-thread.ts'
import type { RungWork } from './ladder.ts'
import { makeModel } from './make-model.ts'
import type { TrainingWork } from './train-in-thread.ts'

/** The inside of the thread that trains. */
await answerFromThread<TrainingWork>(({ history, request }, onProgress) =>
  makeModel(history, request, {
    onProgress,
    trainAside: (work) => (isWorthIt(work) ? trainAside(work) : undefined),
  }),
)

/** A few rows are learnt sooner than a thread is ready. */
function isWorthIt({ examples }: RungWork): boolean {
  return availableParallelism() > 1 && examples.labels.length >= 50_000
}

/** In a second thread, which ends with this one. It shares the features and gets its own copy of the little else. */
function trainAside(work: RungWork): Promise<Model> {
  return workInThread(threadScript('rung'), work)
}
