/**
 * A regular expression that takes time in proportion to its own length times the text's, whatever a tenant writes: all
 * its states advance together over the text, and nothing is ever tried again. Case makes no difference.
 *
 * It knows literals, `.`, classes, `\d \w \s \b`, groups, `|`, `^ $` and `* + ? {m,n}`. Back references and looking
 * around cannot be had in linear time and are refused.
 */
export type LinearRegex = { test(text: string): boolean }

/** Why a pattern is none, said to whoever wrote it. */
export class PatternError extends Error {
  override readonly name = 'PatternError'
}

export function compileRegex(pattern: string): LinearRegex {
  const tree = parse(pattern)
  const machine: Machine = { states: [], parts: 0 }
  const start = build(machine, tree, push(machine, { kind: 'match' }))
  return { test: (text) => run(machine.states, start, text) }
}

type Accepts = (code: string) => boolean
type Assertion = 'start' | 'end' | 'word_edge' | 'no_word_edge'

type Tree =
  | { kind: 'one'; accepts: Accepts }
  | { kind: 'assert'; what: Assertion }
  | { kind: 'all'; parts: Tree[] }
  | { kind: 'any'; parts: Tree[] }
  | { kind: 'repeat'; part: Tree; least: number; most: number }

type State =
  | { kind: 'match' }
  | { kind: 'one'; accepts: Accepts; next: number }
  | { kind: 'assert'; what: Assertion; next: number }
  | { kind: 'split'; nexts: number[] }

/** What is built of a pattern, and of how many parts so far. */
type Machine = { readonly states: State[]; parts: number }

const mostStates = 5_000
// A part that leaves no state, such as `()` or `a{0}`, takes its time too, and a few counts repeat it for years. Where every
// repetition leaves a state, 500 signs cannot make more parts than this.
const mostParts = 2_500_000
const mostRepeats = 1_000
const tooLarge = 'The pattern is too large; write it shorter.'

function parse(pattern: string): Tree {
  const signs = [...pattern]
  let at = 0
  let depth = 0

  const alternatives = (): Tree => {
    const parts = [sequence()]
    while (signs[at] === '|') {
      at++
      parts.push(sequence())
    }
    return parts.length === 1 ? parts[0]! : { kind: 'any', parts }
  }

  const sequence = (): Tree => {
    const parts: Tree[] = []
    while (at < signs.length && signs[at] !== '|' && signs[at] !== ')') parts.push(repeated())
    return { kind: 'all', parts }
  }

  const repeated = (): Tree => {
    let part = atom()
    for (;;) {
      const bounds = quantifier()
      if (!bounds) return part
      if (part.kind === 'assert') throw new PatternError('A mark of place cannot be repeated.')
      part = { kind: 'repeat', part, ...bounds }
      if (signs[at] === '?') at++ // Greedy or not makes no difference to whether it matches.
    }
  }

  const quantifier = (): { least: number; most: number } | undefined => {
    const sign = signs[at]
    if (sign === '*' || sign === '+' || sign === '?') {
      at++
      return { least: sign === '+' ? 1 : 0, most: sign === '?' ? 1 : Number.POSITIVE_INFINITY }
    }
    if (sign !== '{') return undefined
    const text = /^\{(\d{1,4})(,(\d{0,4}))?\}/.exec(signs.slice(at, at + 12).join(''))
    if (!text) throw new PatternError('A brace begins a count such as {2} or {1,3}; write \\{ for the sign.')
    at += text[0].length
    const least = Number(text[1])
    const most = text[2] === undefined ? least : text[3] === '' ? Number.POSITIVE_INFINITY : Number(text[3])
    if (least > most) throw new PatternError('The numbers of a count are out of order.')
    if (least > mostRepeats || (most !== Number.POSITIVE_INFINITY && most > mostRepeats))
      throw new PatternError(`A count goes up to ${mostRepeats}.`)
    return { least, most }
  }

  const atom = (): Tree => {
    const sign = signs[at++]!
    switch (sign) {
      case '(':
        return group()
      case '[':
        return { kind: 'one', accepts: readClass() }
      case '.':
        return { kind: 'one', accepts: (code) => code !== '\n' && code !== '\r' }
      case '^':
        return { kind: 'assert', what: 'start' }
      case '$':
        return { kind: 'assert', what: 'end' }
      case '\\':
        return escaped()
      case '*':
      case '+':
      case '?':
      case '{':
        throw new PatternError('There is nothing to repeat.')
      default:
        return { kind: 'one', accepts: same(sign) }
    }
  }

  const group = (): Tree => {
    if (signs[at] === '?') {
      if (signs[at + 1] === ':') at += 2
      else if (signs[at + 1] === '<' && !/[=!]/.test(signs[at + 2] ?? '')) {
        const end = signs.indexOf('>', at)
        if (end < 0) throw new PatternError('The name of a group does not end.')
        at = end + 1
      } else throw new PatternError('Looking ahead or behind is not understood here.')
    }
    if (++depth > 50) throw new PatternError('Groups are nested too deep.')
    const inside = alternatives()
    if (signs[at++] !== ')') throw new PatternError('A group does not end.')
    depth--
    return inside
  }

  const escaped = (): Tree => {
    const sign = signs[at++]
    if (sign === undefined) throw new PatternError('The pattern ends in a backslash.')
    if (sign === 'b') return { kind: 'assert', what: 'word_edge' }
    if (sign === 'B') return { kind: 'assert', what: 'no_word_edge' }
    return { kind: 'one', accepts: escapedSign(sign) }
  }

  const escapedSign = (sign: string): Accepts => {
    const known = kinds[sign]
    if (known) return known
    if (/[1-9k]/.test(sign)) throw new PatternError('References back to a group are not understood here.')
    if (sign === 'u' || sign === 'x') {
      const length = sign === 'u' ? 4 : 2
      const hex = signs.slice(at, at + length).join('')
      if (!new RegExp(`^[0-9a-fA-F]{${length}}$`).test(hex))
        throw new PatternError(`\\${sign} is followed by ${length} hexadecimal digits.`)
      at += length
      return same(String.fromCharCode(Number.parseInt(hex, 16)))
    }
    const control = { n: '\n', r: '\r', t: '\t', f: '\f', v: '\v', '0': '\0' }[sign]
    if (control === undefined && /[A-Za-z]/.test(sign))
      throw new PatternError(`\\${sign} is not understood here.`)
    return same(control ?? sign)
  }

  const readClass = (): Accepts => {
    const isNegated = signs[at] === '^'
    if (isNegated) at++
    const members: Accepts[] = []
    while (signs[at] !== ']') {
      if (at >= signs.length) throw new PatternError('A class in brackets does not end.')
      const first = signs[at++]!
      if (first === '\\') {
        const sign = signs[at++]
        if (sign === undefined) throw new PatternError('A class in brackets does not end.')
        members.push(sign === 'b' ? same('\b') : escapedSign(sign))
      } else if (signs[at] === '-' && signs[at + 1] !== undefined && !']\\'.includes(signs[at + 1]!)) {
        const last = signs[at + 1]!
        if (last < first) throw new PatternError('A range in brackets is out of order.')
        at += 2
        members.push((code) =>
          [code.toLowerCase(), code.toUpperCase()].some((one) => one >= first && one <= last),
        )
      } else members.push(same(first))
    }
    at++
    return remembering((code) => members.some((accepts) => accepts(code)) !== isNegated)
  }

  const tree = alternatives()
  if (at < signs.length) throw new PatternError('A bracket closes that was not opened.')
  return tree
}

const isWord = (code: string | undefined) => code !== undefined && /^\w$/.test(code)

const kinds: Readonly<Record<string, Accepts>> = {
  d: (code) => code >= '0' && code <= '9',
  D: (code) => !(code >= '0' && code <= '9'),
  w: (code) => isWord(code),
  W: (code) => !isWord(code),
  s: (code) => /^\s$/.test(code),
  S: (code) => !/^\s$/.test(code),
}

function same(sign: string): Accepts {
  const folded = sign.toLowerCase()
  return (code) => code === sign || code.toLowerCase() === folded
}

/** Asks once for every sign: a class has many members, and every repetition of it asks them all. */
function remembering(accepts: Accepts): Accepts {
  const known = new Map<string, boolean>()
  return (code) => {
    const before = known.get(code)
    if (before !== undefined) return before
    const verdict = accepts(code)
    known.set(code, verdict)
    return verdict
  }
}

function push({ states }: Machine, state: State): number {
  if (states.length >= mostStates) throw new PatternError(tooLarge)
  return states.push(state) - 1
}

/** Adds the states of a part that lead on to `next`, and says where it begins. */
function build(machine: Machine, tree: Tree, next: number): number {
  if (++machine.parts > mostParts) throw new PatternError(tooLarge)
  switch (tree.kind) {
    case 'one':
      return push(machine, { kind: 'one', accepts: tree.accepts, next })
    case 'assert':
      return push(machine, { kind: 'assert', what: tree.what, next })
    case 'all':
      return tree.parts.reduceRight((after, part) => build(machine, part, after), next)
    case 'any':
      // Empty alternatives all lead to the same place, which is looked at once.
      return push(machine, {
        kind: 'split',
        nexts: [...new Set(tree.parts.map((part) => build(machine, part, next)))],
      })
    case 'repeat': {
      let after = next
      if (tree.most === Number.POSITIVE_INFINITY) {
        const loop = push(machine, { kind: 'split', nexts: [next] })
        const nexts = (machine.states[loop] as { nexts: number[] }).nexts
        nexts.push(build(machine, tree.part, loop))
        after = loop
      } else {
        for (let n = tree.least; n < tree.most; n++)
          after = push(machine, { kind: 'split', nexts: [build(machine, tree.part, after), next] })
      }
      for (let n = 0; n < tree.least; n++) after = build(machine, tree.part, after)
      return after
    }
  }
}

function run(states: readonly State[], start: number, text: string): boolean {
  const signs = [...text]
  // The place at which a state was last reached: each is looked at once for every sign of the text.
  const seenAt = new Int32Array(states.length).fill(-1)
  let current: number[] = []

  const reach = (from: number, at: number, into: number[]): boolean => {
    const open = [from]
    while (open.length > 0) {
      const index = open.pop()!
      if (seenAt[index] === at) continue
      seenAt[index] = at
      const state = states[index]!
      if (state.kind === 'match') return true
      if (state.kind === 'one') into.push(index)
      else if (state.kind === 'split') open.push(...state.nexts)
      else if (holds(state.what, signs, at)) open.push(state.next)
    }
    return false
  }

  for (let at = 0; at <= signs.length; at++) {
    if (reach(start, at, current)) return true
    if (at === signs.length) return false
    const following: number[] = []
    for (const index of current) {
      const state = states[index] as { accepts: Accepts; next: number }
      if (state.accepts(signs[at]!) && reach(state.next, at + 1, following)) return true
    }
    current = following
  }
  return false
}

function holds(what: Assertion, signs: readonly string[], at: number): boolean {
  if (what === 'start') return at === 0
  if (what === 'end') return at === signs.length
  return (isWord(signs[at - 1]) !== isWord(signs[at])) === (what === 'word_edge')
}
