import { describe, expect, test } from 'vitest'
import { compileRegex } from './linear-regex.ts'
import { type MatchMode, readSite } from './site.ts'

function matches(site: string, match: MatchMode, url: string): boolean {
  const verdict = readSite(site, match)
  if (verdict.refusal !== undefined) throw new Error(verdict.refusal)
  return verdict.matches(url)
}

describe('which results are the site', () => {
  test.each<[string, MatchMode, string, boolean]>([
    // Scheme, case and the surface labels make no difference, on either side.
    ['example.com', 'host', 'https://www.example.com/a', true],
    ['www.example.com', 'host', 'http://example.com/', true],
    ['example.com', 'host', 'https://m.example.com/a', true],
    ['Example.COM', 'host', 'https://EXAMPLE.com./', true],
    ['https://example.com/', 'host', 'https://example.com', true],
    // Other hosts are other sites, however alike they look.
    ['example.com', 'host', 'https://blog.example.com/', false],
    ['example.com', 'host', 'https://example.com.evil.net/', false],
    ['example.com', 'host', 'https://notexample.com/', false],
    ['example.com', 'host', 'https://evil.net/?u=example.com', false],
    ['example.com', 'host', 'https://example.com@evil.net/', false],
    // Subdomains when they are asked for.
    ['example.com', 'domain', 'https://a.b.example.com/', true],
    ['www.example.com', 'domain', 'https://shop.example.com/', true],
    ['example.com', 'domain', 'https://notexample.com/', false],
    // International names in both spellings.
    ['예시.한국', 'host', 'https://xn--vv4b11d.xn--3e0b707e/', true],
    ['xn--vv4b11d.xn--3e0b707e', 'host', 'https://예시.한국/길', true],
    // A path target matches under its path only.
    ['example.com/shop', 'prefix', 'https://www.example.com/shop', true],
    ['example.com/shop', 'prefix', 'https://example.com/Shop/Shoes?x=1', true],
    ['example.com/shop/', 'prefix', 'https://example.com/shop', true],
    ['example.com/shop', 'prefix', 'https://example.com/shopping', false],
    ['example.com/shop', 'prefix', 'https://example.com/', false],
    ['example.com', 'prefix', 'https://example.com/anything', true],
    ['blog.naver.com/someone', 'prefix', 'https://m.blog.naver.com/someone/2231', true],
    ['blog.naver.com/someone', 'prefix', 'https://blog.naver.com/someoneelse', false],
    ['example.com/길', 'prefix', 'https://example.com/%EA%B8%B8/1', true],
    ['^https?://(www\\.)?example\\.(com|org)/', 'regex', 'https://www.EXAMPLE.org/a', true],
    ['^https?://(www\\.)?example\\.(com|org)/', 'regex', 'https://example.net/a', false],
    ['example.com', 'host', 'no address at all', false],
    ['example.com', 'host', '', false],
  ])('%s by %s: %s', (site, match, url, expected) => {
    expect(matches(site, match, url)).toBe(expected)
  })

  test.each<[string, MatchMode]>([
    ['', 'host'],
    ['localhost', 'host'],
    ['ftp://example.com', 'host'],
    ['example.com/shop', 'host'],
    ['example.com?a=1', 'prefix'],
    ['user@example.com', 'host'],
    ['(a', 'regex'],
    ['a)', 'regex'],
    ['[a', 'regex'],
    ['*a', 'regex'],
    ['(?=a)', 'regex'],
    ['(a)\\1', 'regex'],
    ['a{2,1}', 'regex'],
    ['a{1000}{1000}', 'regex'],
    // What leaves nothing behind is repeated too.
    ['(){1000}{1000}{100}a', 'regex'],
    ['a{0}{1000}{1000}{100}b', 'regex'],
    ['(){1000}{1000}{1000}{1000}a', 'regex'],
    ['a{0}{1000}{1000}{1000}{1000}', 'regex'],
    [`${'('.repeat(249)}a${')'.repeat(249)}`, 'regex'],
    ['.*', 'regex'],
    ['a\\', 'regex'],
  ])('%s by %s is refused with a sentence', (site, match) => {
    expect(readSite(site, match).refusal).toMatch(/\.$/)
  })
})

describe('a linear regular expression', () => {
  const patterns = [
    'a|b|cd',
    '^a.c$',
    '(ab)+c?',
    '[a-f]{2,3}x',
    '[^a-z]d',
    '\\d+\\.\\w*',
    '\\bfoo\\b',
    'x(?:y|z){0,2}$',
    '(a|ab)(c|bcd)(d*)',
    '\\x61\\u0062',
    '(?<name>q)\\/',
    'a*?b',
    // Loops that may go round without a sign.
    '(a*)*b',
    '^(|a)+b',
    '(()*)*d',
    '^((a?)*|b{0})+x',
    '((){9}(b{0}){2,}){9}a',
  ]
  const alphabet = 'abcdefxyz.foq/1 2A'
  test.each(patterns)('%s finds what RegExp finds', (pattern) => {
    const linear = compileRegex(pattern)
    const known = new RegExp(pattern, 'i')
    let seed = 7
    for (let n = 0; n < 150; n++) {
      let text = ''
      for (let length = n % 9; length > 0; length--) {
        seed = (seed * 48_271) % 2_147_483_647
        text += alphabet[seed % alphabet.length]
      }
      expect([text, linear.test(text)]).toEqual([text, known.test(text)])
    }
  })

  test('a pattern that makes others run for ever is done at once', () => {
    const began = performance.now()
    expect(compileRegex('^(a+)+$').test(`${'a'.repeat(2_000)}!`)).toBe(false)
    expect(compileRegex('(.*)*x(.*)*y').test('x'.repeat(2_000))).toBe(false)
    // Many ways to the same place, and many members to ask, are repeated with the rest.
    expect(compileRegex(`(${'|'.repeat(480)}a){1000}b`).test('a'.repeat(2_000))).toBe(false)
    expect(compileRegex(`[^${'0123456789'.repeat(47)}]{1000}{4}b`).test('a'.repeat(2_000))).toBe(false)
    expect(performance.now() - began).toBeLessThan(20_000)
  })
})
