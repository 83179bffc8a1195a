/** Waits for all of them, so that one failure leaves none running unwatched, and then tells the first. */
export async function allDone<T>(works: readonly Promise<T>[]): Promise<T[]> {
  const results = await Promise.allSettled(works)
  return results.map((result) => {
    if (result.status === 'rejected') throw result.reason
    return result.value
  })
}
