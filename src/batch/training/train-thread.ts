import { availableParallelism, setPriority } from 'node:os'
import { parentPort, Worker, workerData } from 'node:worker_threads'
import type { Model } from '../models/model.ts'
import type { RungWork } from './ladder.ts'
import { makeModel } from './make-model.ts'
import type { ThreadMessage, ThreadWork } from './train-in-thread.ts'

/** The inside of the thread that trains. It gets its work whole, reports progress and answers once. */
const { history, request } = workerData as ThreadWork
const tell = (message: ThreadMessage) => parentPort!.postMessage(message)

// On Linux a priority belongs to a thread: training takes what the API leaves over.
if (process.platform === 'linux') setPriority(19)

let toldAt = 0
const made = await makeModel(history, request, {
  trainAside: availableParallelism() > 1 ? trainAside : undefined,
  onProgress(fraction) {
    if (performance.now() - toldAt < 200) return
    toldAt = performance.now()
    tell({ kind: 'progress', fraction })
  },
})
tell({ kind: 'answer', made })

/** In a second thread, which ends with this one. It shares the features and gets its own copy of the little else. */
function trainAside(work: RungWork): Promise<Model> {
  const url = new URL('./rung-thread.js', import.meta.url)
  const worker = new Worker(url, { workerData: work, name: 'training aside' })
  return new Promise((resolve, reject) => {
    worker.on('message', resolve)
    worker.on('error', reject)
    worker.on('exit', () => reject(new Error('The second training thread ended without an answer.')))
  })
}
