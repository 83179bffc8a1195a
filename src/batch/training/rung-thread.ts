import { answerFromThread } from '../runs/work-in-thread.ts'
import { type RungWork, trainRungOf } from './ladder.ts'
import { planRounds, type RoundsWork } from './ladder-plan.ts'

export type AsideWork = { kind: 'rounds'; work: RoundsWork } | { kind: 'rung'; work: RungWork }

/** The inside of the second thread: it finds the rounds, and later trains the model to use, while the first does the rest. */
await answerFromThread<AsideWork>(async ({ kind, work }, onProgress) =>
  kind === 'rounds' ? planRounds(work, { onProgress }) : trainRungOf(work, { onProgress }),
)
