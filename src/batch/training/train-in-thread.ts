import { Worker } from 'node:worker_threads'
import { buffersOf, type History } from './history.ts'
import type { Made, MakeRequest } from './make-model.ts'

export type ThreadWork = { history: History; request: MakeRequest }
export type ThreadMessage = { kind: 'progress'; fraction: number } | { kind: 'answer'; made: Made }

// Tests run the sources, and a thread needs JavaScript: there it comes from the build.
const thread = new URL(
  import.meta.url.endsWith('.ts') ? '../../../dist/batch/training/train-thread.js' : './train-thread.js',
  import.meta.url,
)

/**
 * Trains in a thread of its own, so that this process goes on answering. The history moves there and is gone here.
 * Aborting ends the thread in the middle of whatever it does.
 */
export async function trainInThread(
  history: History,
  request: MakeRequest,
  { signal, onProgress }: { signal?: AbortSignal; onProgress?: (fraction: number) => void } = {},
): Promise<Made> {
  signal?.throwIfAborted()
  const work: ThreadWork = { history, request }
  const worker = new Worker(thread, { workerData: work, transferList: buffersOf(history), name: 'training' })
  // A process that is told to end does not wait for a model.
  worker.unref()
  const abort = () => void worker.terminate()
  signal?.addEventListener('abort', abort, { once: true })
  try {
    return await new Promise((resolve, reject) => {
      worker.on('message', (message: ThreadMessage) => {
        if (message.kind === 'answer') resolve(message.made)
        else onProgress?.(message.fraction)
      })
      worker.on('error', reject)
      worker.on('exit', () =>
        reject(signal?.reason ?? new Error('The training thread ended without an answer.')),
      )
    })
  } finally {
    signal?.removeEventListener('abort', abort)
    await worker.terminate()
  }
}
