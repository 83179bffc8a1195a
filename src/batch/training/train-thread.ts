import { availableParallelism } from 'node:os'
import { threadScript } from '../../platform/package-files.ts'
import { answerFromThread, workInThread } from '../runs/work-in-thread.ts'
import type { Aside } from './ladder.ts'
import { makeModel } from './make-model.ts'
import type { AsideWork } from './rung-thread.ts'
import type { TrainingWork } from './train-in-thread.ts'

/** The inside of the thread that trains. */
await answerFromThread<TrainingWork>(({ history, request }, onProgress) =>
  makeModel(history, request, {
    onProgress,
    asideFor: (rows) => (isWorthIt(rows) ? secondThread() : undefined),
  }),
)

/** A few rows are learnt sooner than a thread is ready. */
function isWorthIt(rows: number): boolean {
  return availableParallelism() > 1 && rows >= 50_000
}

/** A second thread, which ends with this one. It shares the features and gets its own copy of the little else. */
function secondThread(): Aside {
  return {
    planRounds: (work, { onProgress }) => inSecondThread({ kind: 'rounds', work }, onProgress),
    trainRung: (work) => inSecondThread({ kind: 'rung', work }),
  }
}

function inSecondThread<Answer>(work: AsideWork, onProgress?: (fraction: number) => void): Promise<Answer> {
  return workInThread(threadScript('rung'), work, { onProgress })
}
