import { performance } from 'node:perf_hooks'

// Below that whoever comes is served within a few milliseconds.
const busyShare = 0.9

/** Tells whether the event loop had hardly a moment's rest since it was last asked about. */
export function watchEventLoop(): () => boolean {
  let last = performance.eventLoopUtilization()
  return () => {
    const now = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(now, last)
    last = now
    return utilization > busyShare
  }
}
