import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** Somebody who works tasks one after another. */
export type Worker<Task, Result> = { work(task: Task): Promise<Result>; close(): Promise<void> }

/**
 * Works tasks in so many child processes that run `module`; whoever is free takes the next one. Results come in the order
 * in which they are ready. Ends early when `onResult` returns false.
 */
export async function workTogether<Task, Result>(
  module: URL,
  args: readonly string[],
  workers: number,
  tasks: readonly Task[],
  onResult: (result: Result) => boolean,
): Promise<void> {
  let next = 0
  let stopped = false
  const children: ChildProcess[] = []

  async function employ(): Promise<void> {
    const child = spawn(process.execPath, ['--import', 'tsx', fileURLToPath(module), ...args], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    children.push(child)
    const ended = once(child, 'exit')
    while (next < tasks.length && !stopped) {
      child.send({ task: tasks[next++] })
      const [message] = await Promise.race([once(child, 'message'), ended])
      if (!isResult<Result>(message))
        throw new Error(`A worker ended with ${message} in the middle of a task.`)
      if (!onResult(message.result)) stopped = true
    }
    child.disconnect()
    await ended
  }

  try {
    await Promise.all(Array.from({ length: Math.min(workers, tasks.length) }, employ))
  } finally {
    for (const child of children) child.kill()
  }
}

function isResult<Result>(message: unknown): message is { result: Result } {
  return typeof message === 'object' && message !== null && 'result' in message
}

/** The other side: works what it is sent until nobody is there to send more. */
export async function workForParent<Task, Result>(worker: Worker<Task, Result>): Promise<void> {
  process.on('message', async ({ task }: { task: Task }) => {
    process.send!({ result: await worker.work(task) })
  })
  await once(process, 'disconnect')
  await worker.close()
}

/** The same without children: one worker, here. */
export async function workAlone<Task, Result>(
  worker: Worker<Task, Result>,
  tasks: readonly Task[],
  onResult: (result: Result) => boolean,
): Promise<void> {
  try {
    for (const task of tasks) if (!onResult(await worker.work(task))) break
  } finally {
    await worker.close()
  }
}
