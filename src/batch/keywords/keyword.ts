/** A keyword as people see it, and the key under which two spellings of it are the same keyword. */
export type Keyword = {
  readonly display: string
  /** Never shown. */
  readonly key: string
}

/** Why a text is no keyword, one sentence each. The order is the order in which the reasons are looked for. */
export const keywordRefusals = {
  keyword_not_string: 'A keyword is a string.',
  keyword_not_unicode:
    'A keyword holds assigned Unicode characters only, without lone surrogates or private use.',
  keyword_control_character: 'A keyword has no control characters, tabs, line breaks or direction marks.',
  keyword_empty: 'A keyword is not empty.',
  keyword_too_long: 'A keyword has at most 80 characters.',
  keyword_too_many_words: 'A keyword has at most 10 words.',
  keyword_has_emoji: 'A keyword has no emoji.',
  keyword_no_content: 'A keyword has at least one letter or digit.',
} as const

export type KeywordRefusal = keyof typeof keywordRefusals

export type KeywordVerdict = (Keyword & { readonly refusal?: never }) | { readonly refusal: KeywordRefusal }

/** Cleans what a caller sent into a keyword, or says the first reason why it is none. */
export function cleanKeyword(raw: unknown): KeywordVerdict {
  if (typeof raw !== 'string') return { refusal: 'keyword_not_string' }
  if (raw.length <= maxCodePoints && plainKeyword.test(raw)) return { display: raw, key: raw.toLowerCase() }

  if (notUnicode.test(raw)) return { refusal: 'keyword_not_unicode' }
  if (controlCharacter.test(raw)) return { refusal: 'keyword_control_character' }

  const visible = visibleForm(raw)
  if (visible === '') return { refusal: 'keyword_empty' }
  if (visible.length > maxComposableUnits) return { refusal: 'keyword_too_long' }

  const display = visible.normalize('NFC')
  const refusal = displayRefusal(display)
  return refusal ? { refusal } : { display, key: keyOf(display) }
}

const maxCodePoints = 80
const maxWords = 10

// Most keywords look like this, and for them every step below changes nothing but the case.
const plainKeyword = /^[A-Za-z0-9가-힣]+(?: [A-Za-z0-9가-힣]+){0,9}$/

// Lone surrogates, unassigned code points (as of the Unicode version Node carries; noncharacters are never
// assigned) and private use: nobody can type or read these, and a store may refuse or change them.
const notUnicode = /[\p{Cs}\p{Cn}\p{Co}]/u

// Besides controls and bidi controls: line and paragraph separators, which break lines as a newline does, and the
// interlinear annotation marks, which no plain text may hold. Other format characters are either zero-width and
// dropped, or visible signs (the Arabic number signs) and kept.
const controlCharacter = /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}\uFFF9-\uFFFB]/u

// Everything Unicode calls ignorable in display: zero-width space, joiners and non-joiner, word joiner, byte order
// mark, soft hyphen, variation selectors, tags. U+FE0F stays, for it makes an emoji and is refused as one; the
// Hangul fillers stay, for they are letters that old syllables are built with.
const zeroWidth = /(?![\uFE0F\u115F\u1160\u3164\uFFA0])\p{Default_Ignorable_Code_Point}/gu

const whiteSpace = /\p{White_Space}+/gu

// Composition joins at most four code points into one, and a code point has at most two code units: a longer text
// is too long in any case, and is never handed to normalize, whose time can grow with the square of the length.
const maxComposableUnits = maxCodePoints * 4 * 2

const emoji = /\p{Emoji_Presentation}|\p{Regional_Indicator}|\uFE0F|\u20E3/u

// The fillers are letters by category, but a keyword made of them alone would be invisible.
const content = /(?![\u115F\u1160\u3164\uFFA0])[\p{L}\p{N}]/u

/** The display form but for NFC, which neither makes nor removes white space or zero-width characters. */
function visibleForm(raw: string): string {
  return raw.replace(zeroWidth, '').replace(whiteSpace, ' ').trim()
}

function displayRefusal(display: string): KeywordRefusal | undefined {
  if (display.length > maxCodePoints && [...display].length > maxCodePoints) return 'keyword_too_long'
  if (display.split(' ').length > maxWords) return 'keyword_too_many_words'
  if (emoji.test(display)) return 'keyword_has_emoji'
  if (!content.test(display)) return 'keyword_no_content'
  return undefined
}

// The whole full-width ASCII block (`！` to `～`) and the half-width katakana with their punctuation (`｡` to `ﾟ`).
const otherWidth = /[\uFF01-\uFF5E\uFF61-\uFF9F]+/g

/**
 * NFKC is applied to full-width ASCII and half-width katakana only: on a whole keyword it would turn `ㅋㅋ` into
 * other letters, join `ㄱㅏ`, and make `①` a 1. A lone half-width voicing mark becomes a combining one, which the
 * last NFC joins to its kana. `İ` becomes `i` with a dot above, the same in every locale, and stays so.
 */
function keyOf(display: string): string {
  return display
    .replace(otherWidth, (run) => run.normalize('NFKC'))
    .toLowerCase()
    .replaceAll('ß', 'ss')
    .normalize('NFC')
}
