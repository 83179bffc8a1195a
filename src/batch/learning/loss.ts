/**
 * The loss everything here is trained and judged by: minus the logarithm of the probability given to what
 * then happened. Its derivative in the score of a class needs only the probability of that class.
 */
export function rowLoss(probability: number): number {
  return -Math.log(Math.max(probability, LEAST))
}

export function gradientOf(probability: number, happened: boolean): number {
  return happened ? probability - 1 : probability
}

/** A probability of exactly zero would make one row outweigh all others. */
const LEAST = 1e-15
