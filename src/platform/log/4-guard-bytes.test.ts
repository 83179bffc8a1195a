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

  const line = Buffer.from('{"level":"info","event":"http.answered","route":"/api/x","n":1}\n'.repeat(5))
  const lone = createSecretSet()
  lone.add(values[0]!)
  // The least of several: a busy machine can only add to a time.
  const leastMs = (of: typeof secrets) =>
    Math.min(
      ...Array.from({ length: 20 }, () => {
        const startedAt = performance.now()
        for (let i = 0; i < 100; i++) of.cover(line)
        return performance.now() - startedAt
      }),
    )
  leastMs(lone)
  expect(leastMs(secrets) / leastMs(lone)).toBeLessThan(10)
})

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
