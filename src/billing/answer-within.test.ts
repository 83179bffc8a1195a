import { expect, test } from 'vitest'
import { keyLeaseMs, patienceMs } from './answer-within.ts'

test.each([
  [15_000, 3_000, 11_000],
  [15_000, 30_000, 15_000],
  [100, 3_000, 100],
])(
  'with ANSWER_WITHIN_MS %i and PROVIDER_TIMEOUT_MS %i a caller waits %i ms, and the key is theirs for longer',
  (answerWithinMs, providerTimeoutMs, expected) => {
    const terms = { answerWithinMs, providerTimeoutMs }
    expect(patienceMs(terms)).toBe(expected)
    expect(keyLeaseMs(terms)).toBeGreaterThan(expected)
  },
)
