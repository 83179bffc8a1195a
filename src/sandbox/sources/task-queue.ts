/** What becomes of an ordered search. */
export type TaskFate = 'good' | 'engine_error' | 'empty' | 'wrong_device'

export type OrderedTask = {
  readonly id: string
  readonly engine: string
  readonly fields: Readonly<Record<string, unknown>>
  readonly fate: TaskFate
  readonly orderedAt: Date
  /** By the source's clock: when the engine is read. */
  readonly readAt: Date
}

/** Searches that were ordered and wait to be read and collected. */
export type TaskQueue = {
  order(task: {
    engine: string
    fields: Record<string, unknown>
    fate: TaskFate
    isSlow: boolean
  }): OrderedTask
  /** Those that are read and that nobody has collected, oldest first. */
  listReady(engine: string): OrderedTask[]
  find(engine: string, id: string): OrderedTask | undefined
  isRead(task: OrderedTask): boolean
  /** It is no longer listed; it can be collected again. */
  markCollected(task: OrderedTask): void
  /** Counts a look at the list: more than 20 within a minute are too many. */
  isLookTooSoon(): boolean
}

const dayMs = 86_400_000
const listedDays = 3
const keptDays = 30
const mostListed = 1000
const mostLooksAMinute = 20
/** Far beyond what is guaranteed. */
const slowSeconds = 3 * 3600

export function openTaskQueue(now: () => Date, taskSeconds = 300): TaskQueue {
  const tasks = new Map<string, OrderedTask>()
  const uncollected = new Set<OrderedTask>()
  const looks: number[] = []
  let count = 0

  const forget = () => {
    for (const task of tasks.values()) {
      if (now().getTime() - task.orderedAt.getTime() < keptDays * dayMs) return
      tasks.delete(task.id)
      uncollected.delete(task)
    }
  }
  const isRead = (task: OrderedTask) => task.readAt <= now()

  return {
    order({ engine, fields, fate, isSlow }) {
      forget()
      const orderedAt = now()
      const seconds = isSlow ? slowSeconds : taskSeconds
      const id = `${orderedAt.toISOString().slice(5, 10).replace('-', '')}0000-0001-0066-0000-${String(++count).padStart(12, '0')}`
      const readAt = new Date(orderedAt.getTime() + seconds * 1000)
      const task: OrderedTask = { id, engine, fields, fate, orderedAt, readAt }
      tasks.set(id, task)
      uncollected.add(task)
      return task
    },
    listReady: (engine) =>
      [...uncollected]
        .filter((task) => task.engine === engine && isRead(task))
        .filter((task) => now().getTime() - task.orderedAt.getTime() < listedDays * dayMs)
        .slice(0, mostListed),
    find: (engine, id) => {
      const task = tasks.get(id)
      return task?.engine === engine ? task : undefined
    },
    isRead,
    markCollected: (task) => void uncollected.delete(task),
    isLookTooSoon() {
      const at = performance.now()
      while (looks.length > 0 && looks[0]! <= at - 60_000) looks.shift()
      looks.push(at)
      return looks.length > mostLooksAMinute
    },
  }
}
