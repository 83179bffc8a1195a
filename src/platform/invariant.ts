/** Says what can never be false. A breach is a defect of ours, so nobody catches it: it ends as a 500. */
export function invariant(condition: unknown, what: string): asserts condition {
  if (!condition) throw new InvariantError(what)
}

export class InvariantError extends Error {
  override readonly name = 'InvariantError'
}
