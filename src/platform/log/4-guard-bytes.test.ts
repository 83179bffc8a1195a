import { expect, test } from 'vitest'
import { guardBytes } from './4-guard-bytes.ts'
import { createSecretSet } from './secret-set.ts'

const secret = 'pä"ss/w+rd-9f8e7d6c'

function covered(secrets: ReturnType<typeof createSecretSet>, line: string): string {
  return Buffer.from(secrets.cover(Buffer.from(line))).toString()
}

test.each([
  ['itself', secret],
  ['JSON', JSON.stringify(secret).slice(1, -1)],
  ['JSON in JSON', JSON.stringify(JSON.stringify(secret).slice(1, -1)).slice(1, -1)],
  ['percent escapes', encodeURIComponent(secret)],
  ['hexadecimal', Buffer.from(secret).toString('hex')],
  ['capital hexadecimal', Buffer.from(secret).toString('hex').toUpperCase()],
])('a live secret is covered as %s', (_, spelled) => {
  const secrets = createSecretSet()
  secrets.add(secret)
  expect(covered(secrets, `a ${spelled} b`)).toBe('a [masked] b')
})

test.each(['', 'u', 'us', 'user'])('a live secret is covered in base64 behind %j', (before) => {
  const secrets = createSecretSet()
  secrets.add(secret)
  const inner = Buffer.from(`${before}${secret}:`)
  for (const encoding of ['base64', 'base64url'] as const) {
    const line = covered(secrets, inner.toString(encoding))
    expect(line).toContain('[masked]')
    // What is left are the edges that mix with other bytes: at most two of the secret's own characters each.
    expect(line.replace('[masked]', '').length).toBeLessThanOrEqual(before.length * 2 + 6)
  }
})

test('a line without a secret is the very same bytes', () => {
  const secrets = createSecretSet()
  secrets.add(secret)
  const line = Buffer.from('{"event":"x","text":"한글 ok"}\n')
  expect(secrets.cover(line)).toBe(line)
})

test('what is too short to be told from ordinary text is not taken', () => {
  expect(createSecretSet().add('abcde')).toBe(false)
})

test('a removed secret is shown again, one that was added twice is not', () => {
  const secrets = createSecretSet()
  secrets.addPassing(secret)
  secrets.add(secret)
  secrets.remove('other-value')
  expect(covered(secrets, secret)).toBe('[masked]')
  secrets.remove(secret)
  expect(covered(secrets, secret)).toBe(secret)
  expect(secrets.size).toBe(0)
})

test('of the passing secrets the latest are kept, and using one again keeps it', () => {
  const secrets = createSecretSet({ maxPassing: 2 })
  for (const value of ['first-value', 'second-value', 'first-value', 'third-value']) secrets.addPassing(value)
  expect(covered(secrets, 'first-value second-value third-value')).toBe('[masked] second-value [masked]')
})

test('ten thousand secrets that begin alike are all found, and a line costs little more than with one', () => {
  const secrets = createSecretSet({ maxPassing: 10_000 })
  const values = Array.from(
    { length: 10_000 },
    (_, i) => `billing-key-0193-${(i * 7919).toString(36).padStart(8, 'x')}`,
  )
  for (const value of values) secrets.addPassing(value)
  for (const value of values) expect(covered(secrets, `<${value}>`)).toBe('<[masked]>')

  const lone = createSecretSet()
  lone.add(values[0]!)
  const line = () => coverLines(secrets)
  leastMs(line)
  expect(leastMs(line) / leastMs(() => coverLines(lone))).toBeLessThan(10)
})

test('when thousands came and went, those that stayed are found, and no other', () => {
  const secrets = createSecretSet({ maxPassing: 100 })
  for (let i = 0; i < 5_000; i++) secrets.addPassing(billingKey(i))
  for (let i = 4_900; i < 5_000; i++) expect(covered(secrets, `<${billingKey(i)}>`)).toBe('<[masked]>')
  for (let i = 0; i < 4_900; i += 70) expect(covered(secrets, billingKey(i))).toBe(billingKey(i))
})

test('a passing secret is taken in for the same, however many others it takes the place of', () => {
  const msPerTurn = (held: number) => {
    const secrets = createSecretSet({ maxPassing: held })
    let next = 0
    const take = (count: number) => {
      for (let i = 0; i < count; i++) secrets.addPassing(billingKey(next++))
    }
    take(held)
    return leastMs(() => take(50))
  }
  msPerTurn(50)
  expect(msPerTurn(6_000) / msPerTurn(50)).toBeLessThan(4)
})

/** Keys of one provider begin alike. */
function billingKey(i: number): string {
  return `billing-key-0193-${((i * 2654435761) % 2 ** 32).toString(16).padStart(8, '0')}-${i.toString(36).padStart(8, 'x')}`
}

const ordinary = Array.from({ length: 100 }, (_, i) =>
  Buffer.from(
    `{"level":"info","event":"http.answered","route":"/api/x","ms":${i / 7},"request_id":"${billingKey(i * 31).slice(12)}"}\n`,
  ),
)

function coverLines(secrets: ReturnType<typeof createSecretSet>): void {
  for (const line of ordinary) secrets.cover(line)
}

/** The least of several: a busy machine can only add to a time. */
function leastMs(work: () => void): number {
  return Math.min(
    ...Array.from({ length: 20 }, () => {
      const startedAt = performance.now()
      work()
      return performance.now() - startedAt
    }),
  )
}

test('if the search fails, a fixed line takes the place of the line', () => {
  const written: string[] = []
  const broken = {
    ...createSecretSet(),
    cover: () => {
      throw new Error('broken')
    },
  }
  guardBytes(broken, { write: (bytes) => written.push(Buffer.from(bytes).toString()) })('{"secret":1}\n')
  expect(written).toEqual(['{"level":"error","event":"log.withheld"}\n'])
})
