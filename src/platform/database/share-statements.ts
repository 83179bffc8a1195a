import { troubleOf } from './database-errors.ts'

/**
 * Lets entries share statements: those of one turn of the event loop go together, and while so many run, those that come
 * gather for the next one, so that a wave of them costs a few round trips and commits and not one each. `run` answers for each
 * entry, in their order. Should it fail, each is run alone, so that a broken one costs its neighbours nothing; unless the
 * database itself is in trouble, which all are told.
 */
export function shareStatements<Entry, Answer>(
  { together, atOnce }: { together: number; atOnce: number },
  run: (entries: readonly Entry[]) => Promise<readonly Answer[]>,
): (entry: Entry) => Promise<Answer> {
  type Waiting = { entry: Entry; resolve: (answer: Answer) => void; reject: (error: unknown) => void }
  const waiting: Waiting[] = []
  let running = 0

  const runAll = async (entries: readonly Waiting[]): Promise<void> => {
    try {
      const answers = await run(entries.map(({ entry }) => entry))
      entries.forEach(({ resolve }, at) => {
        resolve(answers[at]!)
      })
    } catch (error) {
      const isOwn = [undefined, 'conflict'].includes(troubleOf(error))
      if (isOwn && entries.length > 1) for (const one of entries) await runAll([one])
      else for (const { reject } of entries) reject(error)
    }
  }
  const runWaiting = async (): Promise<void> => {
    while (waiting.length > 0) await runAll(waiting.splice(0, together))
    running--
  }

  return (entry) =>
    new Promise((resolve, reject) => {
      waiting.push({ entry, resolve, reject })
      if (running >= atOnce) return
      running++
      setImmediate(runWaiting)
    })
}
