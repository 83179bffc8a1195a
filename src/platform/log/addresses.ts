import type { ByteSpan } from './decoded.ts'

/** Finds e-mail addresses, and the user and password that a URL carries. */
export function findAddresses(text: string, found: ByteSpan[]): void {
  if (!text.includes('@')) return
  findEmails(text, found)
  findUserInfo(text, found)
}

/** Works outwards from each `@` and stops at the next, so each character is looked at twice at most. */
function findEmails(text: string, found: ByteSpan[]): void {
  for (let at = text.indexOf('@'); at >= 0; at = text.indexOf('@', at + 1)) {
    let start = at
    while (start > 0 && isLocal(text.charCodeAt(start - 1))) start--
    let end = at + 1
    while (end < text.length && isDomain(text.charCodeAt(end))) end++
    if (start < at && hasTopLevel(text.slice(at + 1, Math.min(end, at + 256)))) found.push({ start, end })
  }
}

/** A dot with at least two letters behind it; `package@1.2.3` is no address. */
function hasTopLevel(domain: string): boolean {
  return /[^.]\.[A-Za-z\u0080-\uffff]{2}/.test(domain)
}

function isLocal(code: number): boolean {
  return isDomain(code) || localMarks.has(code)
}

const localMarks = new Set([..."_%+'!#$&*=^`{|}~"].map((char) => char.charCodeAt(0)))

function isDomain(code: number): boolean {
  return (
    (code >= 97 && code <= 122) ||
    (code >= 48 && code <= 57) ||
    (code >= 65 && code <= 90) ||
    code === 46 ||
    code === 45 ||
    code > 127
  )
}

/** Everything between `://` and the last `@` before the path. */
function findUserInfo(text: string, found: ByteSpan[]): void {
  for (let slashes = text.indexOf('://'); slashes >= 0; ) {
    const start = slashes + 3
    let end = start
    let at = -1
    for (; end < text.length && !authorityEnd.has(text.charAt(end)); end++) if (text[end] === '@') at = end
    if (at > start) found.push({ start, end: at })
    slashes = text.indexOf('://', end)
  }
}

const authorityEnd = new Set(['/', '?', '#', ' ', '\t', '\n', '\r', '"', "'", '<', '>', '\\', '`', ','])
