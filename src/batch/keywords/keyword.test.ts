import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cleanKeyword, type KeywordRefusal, keywordRefusals } from './keyword.ts'

const words = (count: number) => Array.from({ length: count }, (_, i) => `w${i}`).join(' ')

test.each<[string, string, string, string]>([
  ['a plain word', 'nike', 'nike', 'nike'],
  ['upper case', 'Nike AIR', 'Nike AIR', 'nike air'],
  ['Hangul', '나이키 운동화', '나이키 운동화', '나이키 운동화'],
  ['Hangul without the space', '나이키운동화', '나이키운동화', '나이키운동화'],
  ['Hangul in conjoining jamo', '나이키'.normalize('NFD'), '나이키', '나이키'],
  ['Hangul half composed', '가\u11A8', '각', '각'],
  ['compatibility jamo', 'ㅋㅋ', 'ㅋㅋ', 'ㅋㅋ'],
  ['compatibility jamo that could join', 'ㄱㅏ', 'ㄱㅏ', 'ㄱㅏ'],
  ['a lone leading jamo', '\u1100', '\u1100', '\u1100'],
  ['half-width jamo', '\uFFA1\uFFC2', '\uFFA1\uFFC2', '\uFFA1\uFFC2'],
  ['an old syllable built on a filler', '\u115F\u1161', '\u115F\u1161', '\u115F\u1161'],
  ['Hangul and Latin', '아이폰 15 Pro', '아이폰 15 Pro', '아이폰 15 pro'],
  ['full-width Latin', 'ＮＩＫＥ', 'ＮＩＫＥ', 'nike'],
  ['full-width digits', '２０２６', '２０２６', '2026'],
  ['full-width punctuation', 'ｃ＋＋！', 'ｃ＋＋！', 'c++!'],
  ['a full-width tilde', 'a～b', 'a～b', 'a~b'],
  ['full-width currency', '￦9900', '￦9900', '￦9900'],
  ['half-width katakana', 'ﾅｲｷ', 'ﾅｲｷ', 'ナイキ'],
  ['half-width voiced', 'ｶﾞ', 'ｶﾞ', 'ガ'],
  ['half-width semi-voiced', 'ﾊﾟﾋﾟ', 'ﾊﾟﾋﾟ', 'パピ'],
  ['half-width long vowel', 'ｽﾆｰｶｰ', 'ｽﾆｰｶｰ', 'スニーカー'],
  ['half-width middle dot', 'ﾅ･ｲ', 'ﾅ･ｲ', 'ナ・イ'],
  ['a full-width kana with a half-width voicing mark', 'カﾞ', 'カﾞ', 'ガ'],
  ['a kana with a combining voicing mark', 'カ\u3099', 'ガ', 'ガ'],
  ['a kana with a spacing voicing mark', 'カ゛', 'カ゛', 'カ゛'],
  ['hiragana, apart from katakana', 'ないき', 'ないき', 'ないき'],
  ['Han', '運動靴', '運動靴', '運動靴'],
  ['a Han compatibility ideograph', '\uF900', '\u8C48', '\u8C48'],
  ['a Han variant, its selector dropped', '葛\u{E0100}', '葛', '葛'],
  ['an astral Han character', '𠮷野家', '𠮷野家', '𠮷野家'],
  ['an accent, composed', 'café', 'café', 'café'],
  ['an accent, decomposed', 'cafe\u0301', 'café', 'café'],
  ['an accent on a full-width letter', 'Ａ\u0301', 'Ａ\u0301', 'á'],
  ['accents in either order', 'a\u0323\u0302', 'ậ', 'ậ'],
  ['sharp s', 'Straße', 'Straße', 'strasse'],
  ['capital sharp s', 'STRAẞE', 'STRAẞE', 'strasse'],
  ['double s', 'STRASSE', 'STRASSE', 'strasse'],
  ['a Turkish capital I with dot', 'İstanbul', 'İstanbul', 'i\u0307stanbul'],
  ['that i, already lower', 'i\u0307stanbul', 'i\u0307stanbul', 'i\u0307stanbul'],
  ['a dotless i', 'ı', 'ı', 'ı'],
  ['a capital I', 'I', 'I', 'i'],
  ['a final sigma', 'ΟΔΟΣ', 'ΟΔΟΣ', 'οδος'],
  ['the Kelvin sign', '\u212A', 'K', 'k'],
  ['the Ohm sign', '\u2126', 'Ω', 'ω'],
  ['a ligature', 'ﬁne', 'ﬁne', 'ﬁne'],
  ['a circled digit', '①', '①', '①'],
  ['a superscript', 'm²', 'm²', 'm²'],
  ['a fraction', '½', '½', '½'],
  ['a Roman numeral', 'Ⅳ', 'Ⅳ', 'ⅳ'],
  ['Arabic', 'حذاء', 'حذاء', 'حذاء'],
  ['Arabic digits', '٢٠٢٦', '٢٠٢٦', '٢٠٢٦'],
  ['a visible Arabic number sign', '\u0600٢', '\u0600٢', '\u0600٢'],
  ['Thai', 'รองเท้า', 'รองเท้า', 'รองเท้า'],
  ['Devanagari without its joiner', 'क्\u200Dष', 'क्ष', 'क्ष'],
  ['Persian without its non-joiner', 'می\u200Cخواهم', 'میخواهم', 'میخواهم'],
  ['c++', 'c++', 'c++', 'c++'],
  ['c#', 'C#', 'C#', 'c#'],
  ['.net', '.NET', '.NET', '.net'],
  ['a question', 'what is seo?', 'what is seo?', 'what is seo?'],
  ['SQL that is only text', "'; drop table x;--", "'; drop table x;--", "'; drop table x;--"],
  ['a mathematical letter', '𝐀', '𝐀', '𝐀'],
  ['outer spaces', '  nike  ', 'nike', 'nike'],
  ['inner spaces', 'nike    air', 'nike air', 'nike air'],
  ['a no-break space', 'nike\u00A0air', 'nike air', 'nike air'],
  ['an ideographic space', '나이키\u3000운동화', '나이키 운동화', '나이키 운동화'],
  ['mixed spaces outside and in', '\u3000nike \u2003\u00A0\u202Fair\u2009', 'nike air', 'nike air'],
  ['a zero-width space', 'ni\u200Bke', 'nike', 'nike'],
  ['a zero-width space between spaces', 'nike \u200B air', 'nike air', 'nike air'],
  ['a byte order mark', '\uFEFFnike', 'nike', 'nike'],
  ['a word joiner', 'ni\u2060ke', 'nike', 'nike'],
  ['a soft hyphen', 'ni\u00ADke', 'nike', 'nike'],
  ['a grapheme joiner between letter and accent', 'e\u034F\u0301', 'é', 'é'],
  ['a text variation selector', '1\uFE0E', '1', '1'],
  ['a digit that could be a keycap', '1', '1', '1'],
  ['a trade mark sign as text', 'nike™', 'nike™', 'nike™'],
  ['a heart as text', 'I ♥ NY', 'I ♥ NY', 'i ♥ ny'],
  ['80 code points', 'a'.repeat(80), 'a'.repeat(80), 'a'.repeat(80)],
  ['80 astral code points', '𠮷'.repeat(80), '𠮷'.repeat(80), '𠮷'.repeat(80)],
  ['80 syllables in 240 jamo', '각'.normalize('NFD').repeat(80), '각'.repeat(80), '각'.repeat(80)],
  ['80 Greek letters in 320 code points', 'ᾂ'.normalize('NFD').repeat(80), 'ᾂ'.repeat(80), 'ᾂ'.repeat(80)],
  ['80 letters in a sea of zero width', '\u200Ba\u2060'.repeat(80), 'a'.repeat(80), 'a'.repeat(80)],
  ['80 letters between thousands of spaces', `${' '.repeat(5000)}a`, 'a', 'a'],
  ['a key longer than its keyword', 'ß'.repeat(80), 'ß'.repeat(80), 'ss'.repeat(80)],
  ['10 words', words(10), words(10), words(10)],
  ['10 words widely spaced', ` ${words(10).replaceAll(' ', '\u3000 ')} `, words(10), words(10)],
])('%s is a keyword', (_, raw, display, key) => {
  expect(cleanKeyword(raw)).toEqual({ display, key })
})

test.each<[string, unknown, KeywordRefusal]>([
  ['a number', 7, 'keyword_not_string'],
  ['null', null, 'keyword_not_string'],
  ['nothing', undefined, 'keyword_not_string'],
  ['a list', ['nike'], 'keyword_not_string'],
  ['a string object', new String('nike'), 'keyword_not_string'],
  ['a lone high surrogate', 'nike\uD83D', 'keyword_not_unicode'],
  ['a lone low surrogate', '\uDE00nike', 'keyword_not_unicode'],
  ['surrogates the wrong way round', '\uDE00\uD83D', 'keyword_not_unicode'],
  ['an unassigned code point', 'nike\u0378', 'keyword_not_unicode'],
  ['an unassigned plane', '\u{50000}', 'keyword_not_unicode'],
  ['a noncharacter', 'nike\uFFFE', 'keyword_not_unicode'],
  ['an astral noncharacter', '\u{10FFFF}', 'keyword_not_unicode'],
  ['an Arabic noncharacter', '\uFDD0', 'keyword_not_unicode'],
  ['private use', '\uE000', 'keyword_not_unicode'],
  ['astral private use', 'nike\u{F0000}', 'keyword_not_unicode'],
  ['private use before a control', '\t\uE000', 'keyword_not_unicode'],
  ['a tab', 'nike\tair', 'keyword_control_character'],
  ['a trailing newline', 'nike\n', 'keyword_control_character'],
  ['a carriage return', '\rnike', 'keyword_control_character'],
  ['NUL', 'nike\0', 'keyword_control_character'],
  ['escape', '\u001B[31mnike', 'keyword_control_character'],
  ['delete', 'nike\u007F', 'keyword_control_character'],
  ['next line', 'nike\u0085', 'keyword_control_character'],
  ['a C1 control', '\u009Bnike', 'keyword_control_character'],
  ['a line separator', 'nike\u2028air', 'keyword_control_character'],
  ['a paragraph separator', 'nike\u2029', 'keyword_control_character'],
  ['a left-to-right mark', 'nike\u200E', 'keyword_control_character'],
  ['a right-to-left mark', '\u200Fnike', 'keyword_control_character'],
  ['an Arabic letter mark', '\u061Cnike', 'keyword_control_character'],
  ['a right-to-left override', 'nike\u202Eekin', 'keyword_control_character'],
  ['an isolate', '\u2066nike\u2069', 'keyword_control_character'],
  ['an interlinear annotation', 'a\uFFF9b\uFFFAc\uFFFB', 'keyword_control_character'],
  ['only a tab', '\t', 'keyword_control_character'],
  ['nothing at all', '', 'keyword_empty'],
  ['only spaces', '   ', 'keyword_empty'],
  ['only an ideographic space', '\u3000', 'keyword_empty'],
  ['only zero width', '\u200B\uFEFF\u2060', 'keyword_empty'],
  ['zero width and spaces', ' \u200D \u00AD ', 'keyword_empty'],
  ['81 code points', 'a'.repeat(81), 'keyword_too_long'],
  ['81 astral code points', '𠮷'.repeat(81), 'keyword_too_long'],
  ['81 syllables', '가'.repeat(81), 'keyword_too_long'],
  ['81 with an inner space', `${'a'.repeat(40)} ${'b'.repeat(40)}`, 'keyword_too_long'],
  ['100,000 letters', 'a'.repeat(100_000), 'keyword_too_long'],
  ['too long and too many words', words(41), 'keyword_too_long'],
  ['too long and emoji', '😀'.repeat(81), 'keyword_too_long'],
  ['11 words', words(11), 'keyword_too_many_words'],
  ['11 words and emoji', `${words(10)} 😀`, 'keyword_too_many_words'],
  ['11 dots', '. '.repeat(11), 'keyword_too_many_words'],
  ['an emoji', 'nike 😀', 'keyword_has_emoji'],
  ['only an emoji', '🔥', 'keyword_has_emoji'],
  ['an emoji with a skin tone', '👍🏽', 'keyword_has_emoji'],
  ['a family joined by zero-width joiners', '👨‍👩‍👧', 'keyword_has_emoji'],
  ['a flag', '🇰🇷', 'keyword_has_emoji'],
  ['half a flag', 'a🇰', 'keyword_has_emoji'],
  ['a flag of tags', '🏴󠁧󠁢󠁥󠁮󠁧󠁿', 'keyword_has_emoji'],
  ['a keycap', '1️⃣', 'keyword_has_emoji'],
  ['a keycap without its selector', '1⃣', 'keyword_has_emoji'],
  ['a heart made emoji', 'I ❤️ NY', 'keyword_has_emoji'],
  ['a watch asked to be text', 'a⌚︎', 'keyword_has_emoji'],
  ['a digit asked to be emoji', '1\uFE0F', 'keyword_has_emoji'],
  ['only punctuation', '!!!', 'keyword_no_content'],
  ['only a plus', '+', 'keyword_no_content'],
  ['only an accent', '\u0301', 'keyword_no_content'],
  ['only a symbol', '♥', 'keyword_no_content'],
  ['only full-width punctuation', '！', 'keyword_no_content'],
  ['only a Hangul filler', '\u3164', 'keyword_no_content'],
  ['only a braille blank', '\u2800', 'keyword_no_content'],
])('%s is refused', (_, raw, refusal) => {
  expect(cleanKeyword(raw)).toEqual({ refusal })
})

test.each([
  ['나이키 운동화', '나이키운동화'],
  ['cafe', 'café'],
  ['①', '1'],
  ['ㄱㅏ', '가'],
  ['ㅋㅋ', '\u110F\u110F'],
  ['ナイキ', 'ないき'],
  ['İ', 'i'],
  ['ㅏ', '\uFFC2'],
])('%s and %s stay apart', (one, other) => {
  expect(keyOf(one)).not.toBe(keyOf(other))
})

test('every reason has a sentence', () => {
  for (const sentence of Object.values(keywordRefusals)) expect(sentence).toMatch(/^A keyword .+\.$/)
})

test('a hostile text of combining marks is refused without being normalised', () => {
  const marks = '\u0301\u0323'.repeat(60_000)
  const start = performance.now()
  expect(cleanKeyword(`a${marks}`)).toEqual({ refusal: 'keyword_too_long' })
  // Normalised it takes minutes.
  expect(performance.now() - start).toBeLessThan(10_000)
})

describe('for any text', () => {
  /** Text dense in what the rules are about: spaces, zero width, jamo, kana widths, case pairs, marks, emoji. */
  const telling = fc.constantFrom(
    ...' \u3000\u00A0\u200B\u200D\uFEFF\u034F\u0301\u0307\u3099ﾞﾟｶハカ가각ㄱㅏ\u1100\u1161\u11A8Aaßẞ\u0130Iiı①１Ａ！+#',
    '\t',
    '\uFE0F',
    '\u20E3',
    '\uD83D',
    '\uDE00',
    '\uE000',
    '\u202E',
    '\u3164',
    '\u2126',
    '\u0345',
    'ǅ',
    'Σ',
    '🇰',
    '𠮷',
  )
  const text = fc.oneof(
    { weight: 5, arbitrary: fc.string({ unit: telling, maxLength: 12 }) },
    { weight: 2, arbitrary: fc.string({ unit: 'binary', maxLength: 20 }) },
    { weight: 2, arbitrary: fc.string({ unit: 'grapheme', maxLength: 100 }) },
    { weight: 1, arbitrary: fc.string({ unit: telling, minLength: 60, maxLength: 200 }) },
    { weight: 1, arbitrary: fc.string({ unit: fc.constantFrom(...'aB1가 '), maxLength: 90 }) },
  )
  const runs = { numRuns: 5000 }

  test('the verdict is the one that the rules give when followed one by one', () => {
    fc.assert(
      fc.property(text, (raw) => {
        expect(cleanKeyword(raw)).toEqual(verdictByTheBook(raw))
      }),
      runs,
    )
  })

  test('cleaning twice changes nothing: neither the display form nor the key', () => {
    fc.assert(
      fc.property(text, (raw) => {
        const once = cleanKeyword(raw)
        if (once.refusal) return
        expect(cleanKeyword(once.display)).toEqual(once)
        // A key may be no keyword itself: `ß` makes it longer, and a lone voicing mark is no letter any more.
        const fromKey = cleanKeyword(once.key)
        if (fromKey.refusal) expect(['keyword_too_long', 'keyword_no_content']).toContain(fromKey.refusal)
        else expect(fromKey.key).toBe(once.key)
      }),
      runs,
    )
  })
})

function keyOf(raw: string): string | undefined {
  const verdict = cleanKeyword(raw)
  return verdict.refusal ? undefined : verdict.key
}

/** The contract's sentences in the contract's order, character by character and without short cuts. */
function verdictByTheBook(raw: string): unknown {
  const characters = [...raw]
  if (characters.some((c) => /\p{Cs}|\p{Cn}|\p{Co}/u.test(c))) return { refusal: 'keyword_not_unicode' }
  const isControl = (c: string) => /\p{Cc}|\p{Bidi_Control}|[\u2028\u2029\uFFF9-\uFFFB]/u.test(c)
  if (characters.some(isControl)) return { refusal: 'keyword_control_character' }

  const kept = ['\uFE0F', '\u115F', '\u1160', '\u3164', '\uFFA0']
  const isZeroWidth = (c: string) => /\p{DI}/u.test(c) && !kept.includes(c)
  const display = characters
    .filter((c) => !isZeroWidth(c))
    .join('')
    .normalize('NFC')
    .split(/\p{White_Space}/u)
    .filter((word) => word !== '')
    .join(' ')
  if (display === '') return { refusal: 'keyword_empty' }
  if (Array.from(display).length > 80) return { refusal: 'keyword_too_long' }
  if (display.split(' ').length > 10) return { refusal: 'keyword_too_many_words' }
  const isEmoji = (c: string) => /\p{Emoji_Presentation}|\p{Regional_Indicator}|[\uFE0F\u20E3]/u.test(c)
  if ([...display].some(isEmoji)) return { refusal: 'keyword_has_emoji' }
  if (![...display].some((c) => /\p{L}|\p{N}/u.test(c) && !kept.includes(c))) {
    return { refusal: 'keyword_no_content' }
  }

  let folded = ''
  for (const c of display) {
    const code = c.charCodeAt(0)
    if (code >= 0xff01 && code <= 0xff5e) folded += String.fromCharCode(code - 0xfee0)
    else if (code >= 0xff61 && code <= 0xff9f) folded += c.normalize('NFKC')
    else folded += c
  }
  return { display, key: folded.toLowerCase().split('ß').join('ss').normalize('NFC') }
}
