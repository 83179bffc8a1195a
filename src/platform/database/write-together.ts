import { troubleOf } from './database-errors.ts'

/**
 * Writes entries as fast as the disk allows: those that come while a statement runs share the next one, so that a wave of
 * them costs a few commits and not one each. `write` answers for each entry, in their order. Should it fail, each is written
 * alone, so that a broken one costs its neighbours nothing; unless the database itself is in trouble, which all are told.
 */
export function writeTogether<Entry, Answer>(
  most: number,
  write: (entries: readonly Entry[]) => Promise<readonly Answer[]>,
): (entry: Entry) => Promise<Answer> {
  type Waiting = { entry: Entry; resolve: (answer: Answer) => void; reject: (error: unknown) => void }
  const waiting: Waiting[] = []
  let writing = false

  const writeAll = async (together: readonly Waiting[]): Promise<void> => {
    try {
      const answers = await write(together.map(({ entry }) => entry))
      together.forEach(({ resolve }, at) => {
        resolve(answers[at]!)
      })
    } catch (error) {
      const isOwn = [undefined, 'conflict'].includes(troubleOf(error))
      if (isOwn && together.length > 1) for (const one of together) await writeAll([one])
      else for (const { reject } of together) reject(error)
    }
  }

  return (entry) =>
    new Promise((resolve, reject) => {
      waiting.push({ entry, resolve, reject })
      if (writing) return
      writing = true
      void (async () => {
        while (waiting.length > 0) await writeAll(waiting.splice(0, most))
        writing = false
      })()
    })
}
