/** Whoever else has something to do goes first. */
export function othersFirst(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

const fewAtOnce = 100

/** A long list as short ones, with a pause after each, so that what is done with it keeps nobody waiting for long. */
export async function* pieces<T>(list: readonly T[], atOnce = fewAtOnce): AsyncGenerator<readonly T[]> {
  for (let at = 0; at < list.length; at += atOnce) {
    if (at > 0) await othersFirst()
    yield list.slice(at, at + atOnce)
  }
}

/** Makes something of each of a long list, in pieces. */
export async function mapInPieces<T, R>(list: readonly T[], make: (one: T) => R): Promise<R[]> {
  const made: R[] = []
  for await (const piece of pieces(list)) for (const one of piece) made.push(make(one))
  return made
}
