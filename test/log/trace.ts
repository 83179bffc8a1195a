import { fileURLToPath } from 'node:url'
import type { Planted } from './planted-secrets.ts'

/** The first trace of the secret that anyone could read out of these lines, or undefined. */
export function traceOf(planted: Planted, lines: string): string | undefined {
  const content = planted.kind === 'card_code' ? withoutNumbersOfOurs(lines) : lines
  for (const reading of readings(content)) {
    for (const trace of planted.traces) if (reading.includes(trace)) return reading
    if (!numbers.has(planted.kind)) continue
    const digits = planted.traces[0]!.replace(/\D/g, '')
    if (reading.replace(/\D+/g, '').includes(digits)) return reading
  }
  return undefined
}

const numbers = new Set(['card_number', 'phone', 'resident_number', 'card_code'])

const checkout = fileURLToPath(new URL('../..', import.meta.url))

/** Three digits are found anywhere; those of times, places, folders, counts and names are not the ones meant. */
function withoutNumbersOfOurs(lines: string): string {
  return lines
    .replaceAll(checkout, '')
    .replace(/"time":"[^"]*"/g, '')
    .replace(/:\d+:\d+\b/g, '')
    .replace(/\[\d+ characters\]/g, '')
    .replace(/"(?:refused|fields)":\d+/g, '')
    .replace(/node:[\w/]+:\d+/g, '')
    .replace(/card%5B[^%]*%5D=/g, 'card=')
}

/** The ways in which a reader would try to make sense of a line. Shares nothing with the code under test. */
function readings(lines: string): string[] {
  const all = [lines]
  const add = (text: string) => {
    if (!all.includes(text)) all.push(text)
  }
  for (let round = 0; round < 3; round++) {
    const text = all.at(-1)!
    if (text.includes('\\'))
      add(
        text
          .replace(/\\+u([0-9a-f]{4})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
          .replace(/\\/g, ''),
      )
    if (text.includes('%'))
      add(
        text.replace(/(?:%[0-9a-f]{2})+/gi, (run) => Buffer.from(run.replaceAll('%', ''), 'hex').toString()),
      )
    if (text.includes('&#')) add(text.replace(/&#(\d+);/g, (_, point) => String.fromCodePoint(Number(point))))
    if (/[^ -~\n]/.test(text)) add(text.normalize('NFKC').replace(/[\u200b-\u200f\ufeff\u00ad]/g, ''))
    const hidden =
      text
        .match(/[A-Za-z0-9+/_-]{4,}/g)
        ?.map(revealed)
        .filter((word) => word !== '') ?? []
    if (hidden.length === 0) break
    add(hidden.join(' '))
  }
  return all
}

function revealed(word: string): string {
  const isHex = word.length % 2 === 0 && /^[0-9a-f]+$/i.test(word)
  const text = Buffer.from(word, isHex ? 'hex' : 'base64').toString()
  return /^[\P{Cc}\s]+$/u.test(text) && !text.includes('\ufffd') ? text : ''
}
