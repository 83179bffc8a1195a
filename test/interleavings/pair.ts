import { Refusal } from '../../src/platform/refusal.ts'
import type { Facts } from './invariants.ts'
import type { Run } from './run-order.ts'
import type { Actor, Stage } from './stage.ts'

/** Two works that must not harm each other in any order of their steps. */
export type Pair = {
  readonly name: string
  /** What is proven, as a fact of the business. */
  readonly fact: string
  /** A relative of a critical pair: of its many orders `npm test` runs a drawn part, and `all.ts` the rest. */
  readonly isVariant?: true
  /** Makes a fresh case; the same every time but for its ids. */
  open(stage: Stage): Promise<Case>
}

export type Case = {
  readonly accountId: string
  A(actor: Actor): Promise<unknown>
  B(actor: Actor): Promise<unknown>
  /** What time brings to an end, once both sides are through and the sweeps have found nothing more to do. */
  later?(): Promise<void>
  /** What else must hold of this pair, as sentences of what does not. */
  check(run: Run, facts: Facts): string[] | Promise<string[]>
}

/** How a side ended: what it answered, or the code of the "no" it was told. Anything else is a fault. */
export function answerOf<T>(result: PromiseSettledResult<unknown>): { value: T } | { refused: string } {
  if (result.status === 'fulfilled') return { value: result.value as T }
  if (result.reason instanceof Refusal) return { refused: result.reason.code }
  throw result.reason
}

/** How both sides ended, as short words in a fixed order: answers by `word`, refusals by their code. */
export function endsOf<T>(run: Run, word: (value: T) => string): [string, string] {
  const end = (result: PromiseSettledResult<unknown>) => {
    const answer = answerOf<T>(result)
    return 'refused' in answer ? answer.refused : word(answer.value)
  }
  return [end(run.results.A), end(run.results.B)]
}

export function unless(holds: boolean, sentence: string): string[] {
  return holds ? [] : [sentence]
}

/** A first period and its renewal: each was paid for, and nothing else. */
export function paidOnce(facts: Facts): string[] {
  const charges = facts.provider.filter(({ paid }) => paid).length
  const { status } = facts.subscriptions[0]!
  return [
    ...unless(charges === 2, `${charges} charges for two periods`),
    ...unless(status === 'active', `it is ${status}`),
    ...unless(
      facts.payments.every(({ unmatched }) => !unmatched),
      'money was taken that pays for nothing',
    ),
  ]
}
