/**
 * Waits for the first SIGINT or SIGTERM. A signal to a process group arrives twice within a millisecond (from the
 * terminal and from npm), so repeats are ignored for two seconds; one after that means "now".
 */
export function untilAskedToStop(): Promise<string> {
  return new Promise((resolve) => {
    let askedAt: number | undefined
    const ask = (signal: NodeJS.Signals) => {
      if (askedAt === undefined) {
        askedAt = performance.now()
        resolve(signal)
      } else if (performance.now() - askedAt > 2_000) {
        process.exit(1)
      }
    }
    process.on('SIGINT', ask)
    process.on('SIGTERM', ask)
  })
}
