export type Progress = {
  /** So much of the whole is done. */
  show(done: number, note?: string): void
  /** Leaves the bar as it is and goes to the next line. */
  end(): void
}

/** Tells how long work goes, on standard error: a bar that redraws itself on a terminal, a plain line now and then elsewhere. */
export function openProgress(what: string, total: number | null): Progress {
  const isTerminal = process.stderr.isTTY === true
  const everyMs = isTerminal ? 100 : 5_000
  let shownAt = performance.now()
  let shown = false

  return {
    show(done, note = '') {
      const isDone = total !== null && done >= total
      if (performance.now() - shownAt < everyMs && !(isTerminal && isDone)) return
      shownAt = performance.now()
      const share = total ? Math.min(1, done / total) : undefined
      const count = total === null ? `${done}` : `${done} of ${total}`
      const text = `${what}: ${count}${note && `, ${note}`}`
      if (isTerminal)
        process.stderr.write(`${share === undefined ? '' : `${barOf(share)} `}${text.padEnd(70)}\r`)
      else process.stderr.write(`${text}\n`)
      shown = isTerminal
    },
    end() {
      if (shown) process.stderr.write('\n')
      shown = false
    },
  }
}

export function barOf(share: number): string {
  const full = Math.floor(share * 24)
  return `[${'#'.repeat(full)}${'.'.repeat(24 - full)}]`
}
