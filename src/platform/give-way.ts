import { getPriority, setPriority } from 'node:os'

/** Work that nobody waits for gets what everything else leaves over; what somebody waits for, a tenth of a busy core. */
const niceness = { nobody: 19, somebody: 10 } as const

/**
 * On Linux a priority belongs to a thread: the one that calls this makes way for the API. What it starts afterwards inherits
 * that. Whoever makes more way already goes on doing so.
 */
export function giveWay(whoWaits: keyof typeof niceness = 'nobody'): void {
  if (process.platform !== 'linux' || getPriority() >= niceness[whoWaits]) return
  try {
    setPriority(niceness[whoWaits])
  } catch {
    // A sandbox may forbid it. It is a courtesy, and no reason to leave the work undone.
  }
}
