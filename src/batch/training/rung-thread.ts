import { setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { type RungWork, trainRungOf } from './ladder.ts'

/** The inside of the thread that trains the model to use while the other one trains the model to be judged. */
if (process.platform === 'linux') setPriority(19)
parentPort!.postMessage(trainRungOf(workerData as RungWork, {}))
