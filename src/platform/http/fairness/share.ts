/** How many requests a token may have in work, as it is now. */
export type Share = {
  /** A token asks for something. */
  seen(tokenId: string): void
  now(): number
  /** No other token has asked for anything lately. */
  isAlone(): boolean
  /** How long to leave a token's line alone between two of its requests, when even the least share is too much. */
  pauseMs(): number
}

const leastAtOnce = 1
const changeMs = 50
const companyMs = 5_000
const shortestPauseMs = 5
const longestPauseMs = 640

/**
 * A token's share of the process: all that is allowed while it is alone or there is room, and less by half as often as
 * it takes while there are others and the process runs short of connections or time. A token that asks for little has less
 * in work than that and notices nothing. The share grows back one by one, because what was let in cannot be called back.
 */
export function openShare(most: number, isCrowded: () => boolean, clock = () => performance.now()): Share {
  let newest = { tokenId: '', at: Number.NEGATIVE_INFINITY }
  let other = newest
  let share = most
  let pause = 0
  let changedAt = clock()

  const isAlone = () => clock() - other.at > companyMs

  function now(): number {
    const at = clock()
    const steps = Math.floor((at - changedAt) / changeMs)
    if (steps < 1) return share
    changedAt = at
    if (isAlone()) {
      share = most
      pause = 0
    } else if (isCrowded()) {
      if (share <= leastAtOnce) pause = Math.min(longestPauseMs, Math.max(shortestPauseMs, pause * 2))
      share = Math.max(leastAtOnce, Math.floor(share / 2))
    } else if (pause > 0) pause = pause > shortestPauseMs ? pause * 0.8 : 0
    else share = Math.min(most, share + steps)
    return share
  }

  return {
    seen(tokenId) {
      const at = clock()
      if (newest.tokenId !== tokenId) other = newest
      newest = { tokenId, at }
    },
    now,
    isAlone,
    pauseMs() {
      now()
      return pause
    },
  }
}
