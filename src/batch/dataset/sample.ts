/** Of a history of more usable ranks than these only a sample is read: all of it would take time and memory without end. */
export const mostRanksRead = 2_000_000

/**
 * Which share of the keywords is read, so that there are no more ranks than these. There are four steps from one share to
 * half of it: while a history grows, the sample stays the same for weeks and then loses a sixth of its keywords.
 */
export function keywordsKept(ranks: number, most: number): number {
  if (ranks <= most) return 1
  return 2 ** -(Math.ceil(4 * Math.log2(ranks / most)) / 4)
}
