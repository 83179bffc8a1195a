import { describe, expect, test } from 'vitest'
import { admission } from '../../src/platform/log/1-admit.ts'
import { maskNames } from '../../src/platform/log/2-mask-names.ts'
import { maskValues } from '../../src/platform/log/3-mask-values.ts'
import { createSecretSet } from '../../src/platform/log/secret-set.ts'
import { size } from '../size.ts'

const length = size(300_000, 1_000_000)
const fill = (part: string) => part.repeat(Math.ceil(length / part.length))

/** Texts that make a careless scanner start over at every character. */
const hostile: Record<string, string> = {
  'one letter': fill('a'),
  'one digit': fill('4'),
  'digits in groups': fill('4111 '),
  'single digits': fill('1 '),
  'card after card': fill('4111111111111111 '),
  'at signs': fill('a@'),
  'nearly addresses': fill('a.b@c.'),
  schemes: fill('a://'),
  'URLs with users': fill('x://u:p@h '),
  'beginnings of JWTs': fill('eyJ'),
  'dotted beginnings of JWTs': fill('eyJ.eyJ.'),
  'beginnings of PEM blocks': fill('-----BEGIN '),
  'ends of PEM blocks': fill('-----END '),
  'beginnings of keys': fill('sk_live_'),
  'billing keys': fill('bk_'),
  'bearer without token': fill('bearer '),
  'cues without a code': fill('cvc '),
  'Korean cues': fill('보안코드 '),
  'percent signs': fill('%'),
  'percent escapes': fill('%34'),
  'escaped percent signs': fill('%25'),
  backslashes: fill('\\'),
  'Unicode escapes': fill('\\u0034'),
  'open Unicode escapes': fill('\\u{'),
  entities: fill('&#52;'),
  'zero-width characters': fill('4\u200b'),
  'full-width digits': fill('４'),
  base64: Buffer.from(fill('the quick brown fox ')).toString('base64').slice(0, length),
  'base64 in base64': Buffer.from(Buffer.from(fill('card 4111 ')).toString('base64'))
    .toString('base64')
    .slice(0, length),
  'base64 in pieces': fill('QUJDREVGR0g/'),
  hexadecimal: fill('3431'),
  'open quotes': fill('"cvc":"'),
  'escaped quotes': fill('\\"cvc\\":\\"'),
  'open brackets': fill('cvc:['),
  'sensitive names': fill('password='),
  'equals signs': fill('='),
  'long words before colons': fill(`${'a'.repeat(70)}:`),
  'combining marks': fill('e\u0301'),
}

const admit = admission({ 'a.b': { route: 'text', request_id: 'id', body: 'withheld', error: 'error' } })
const secrets = createSecretSet()
for (const value of ['4111111111111111', 'a'.repeat(500), 'sk_live_sk_live_', '%34%34%34%34', 'eyJeyJeyJ'])
  secrets.add(value)

const stages: Record<string, (text: string) => unknown> = {
  admission: (text) => admit('a.b', { route: text, request_id: text, body: text, error: new Error(text) }),
  names: maskNames,
  values: maskValues,
  bytes: (text) => secrets.cover(Buffer.from(text)),
}

describe.each(Object.entries(stages))('a long text takes %s no longer than its length', (_, stage) => {
  test.each(Object.entries(hostile))('of %s', (_, text) => {
    // Processor time, so that a busy machine does not fail a linear scanner.
    const started = process.cpuUsage()
    stage(text)
    const { user, system } = process.cpuUsage(started)
    // A megabyte takes a fraction of a second where nothing else runs; anything but linear would take minutes.
    expect((user + system) / 1000).toBeLessThan(length / 150)
  })
})
