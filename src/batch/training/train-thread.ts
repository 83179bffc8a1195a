import { setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { makeModel } from './make-model.ts'
import type { ThreadMessage, ThreadWork } from './train-in-thread.ts'

/** The inside of the thread that trains. It gets its work whole, reports progress and answers once. */
const { history, request } = workerData as ThreadWork
const tell = (message: ThreadMessage) => parentPort!.postMessage(message)

// On Linux a priority belongs to a thread: training takes what the API leaves over.
if (process.platform === 'linux') setPriority(10)

let toldAt = 0
const made = makeModel(history, request, {
  onProgress(fraction) {
    if (performance.now() - toldAt < 200) return
    toldAt = performance.now()
    tell({ kind: 'progress', fraction })
  },
})
tell({ kind: 'answer', made })
