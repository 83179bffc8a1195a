/**
 * Gives work so long to finish before the caller is answered. It goes on meanwhile: what it finds is recorded, and
 * should it fail, the sweep finds the recorded intent.
 */
export async function answerWithin(
  ms: number,
  work: (signal: AbortSignal) => Promise<unknown>,
): Promise<void> {
  const late = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const timeUp = new Promise<void>((resolve) => {
    timer = setTimeout(() => {
      late.abort()
      resolve()
    }, ms)
  })
  const working = work(late.signal)
  working.catch(() => {})
  try {
    await Promise.race([working, timeUp])
  } finally {
    clearTimeout(timer)
  }
}
