import { performance } from 'node:perf_hooks'

// The other half is left to whoever comes: at nine tenths a request waits several times as long as it works.
const busyShare = 0.5

/** Tells whether the event loop was at work for more than half of the time since it was last asked about. */
export function watchEventLoop(): () => boolean {
  let last = performance.eventLoopUtilization()
  return () => {
    const now = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(now, last)
    last = now
    return utilization > busyShare
  }
}
