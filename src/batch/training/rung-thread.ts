import { answerFromThread } from '../runs/work-in-thread.ts'
import { type RungWork, trainRungOf } from './ladder.ts'

/** The inside of the thread that trains the model to use while the other one trains the model to be judged. */
await answerFromThread<RungWork>(async (work, onProgress) => trainRungOf(work, { onProgress }))
