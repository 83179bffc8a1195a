import { parentPort, type Transferable, Worker, workerData } from 'node:worker_threads'
import { giveWay } from '../../platform/give-way.ts'

type ThreadMessage = { kind: 'progress'; fraction: number } | { kind: 'answer'; answer: unknown }

export type ThreadOptions = {
  signal?: AbortSignal | undefined
  onProgress?: ((fraction: number) => void) | undefined
  /** Moves to the thread and is gone here. */
  transfer?: Transferable[]
}

/**
 * Does long work in a thread of its own, so that this process goes on answering. Aborting ends the thread in the middle
 * of whatever it does.
 */
export async function workInThread<Answer>(
  script: URL,
  work: unknown,
  { signal, onProgress, transfer = [] }: ThreadOptions = {},
): Promise<Answer> {
  signal?.throwIfAborted()
  const worker = new Worker(script, { workerData: work, transferList: transfer })
  // A process that is told to end does not wait for it.
  worker.unref()
  const abort = () => void worker.terminate()
  signal?.addEventListener('abort', abort, { once: true })
  try {
    return await new Promise((resolve, reject) => {
      worker.on('message', (message: ThreadMessage) => {
        if (message.kind === 'answer') resolve(message.answer as Answer)
        else onProgress?.(message.fraction)
      })
      worker.on('error', reject)
      worker.on('exit', () => reject(signal?.reason ?? new Error('The thread ended without an answer.')))
    })
  } finally {
    signal?.removeEventListener('abort', abort)
    await worker.terminate()
  }
}

/** The inside of such a thread: it gets its work whole, says how far it is and answers once. */
export async function answerFromThread<Work>(
  act: (work: Work, report: (fraction: number) => void) => Promise<unknown>,
): Promise<void> {
  giveWay()
  let toldAt = 0
  const tell = (message: ThreadMessage) => parentPort!.postMessage(message)
  const answer = await act(workerData as Work, (fraction) => {
    if (performance.now() - toldAt < 200) return
    toldAt = performance.now()
    tell({ kind: 'progress', fraction })
  })
  tell({ kind: 'answer', answer })
}
