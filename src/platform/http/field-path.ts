import { isPlainWord } from '../log/plain-word.ts'

/** `/keywords/3` reads `keywords[3]`. */
export function fieldPath(pointer: string): string {
  return pointer
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce((path, step) => (/^\d{1,7}$/.test(step) ? `${path}[${step}]` : fieldName(path, step)), '')
}

/**
 * A field's name behind its parent's path. Names come from the caller too: one that is no field of ours and does not
 * read like the name of one may be a token or a card that slipped into its place, and is not said back.
 */
export function fieldName(path: string, name: string): string {
  const shown = ourNames.has(name) || mayBeShown(name) ? name : '<field>'
  return path ? `${path}.${shown}` : shown
}

const ourNames = new Set<string>()

/** Names that stand in a schema of ours are no secret. */
export function rememberFieldNames(names: Iterable<string>): void {
  for (const name of names) ourNames.add(name)
}

// A name has words; a password, a key or a number has digits or no end.
const wordy = /^[A-Za-z][A-Za-z_-]{0,31}\d{0,2}$/

function mayBeShown(name: string): boolean {
  return wordy.test(name) && isPlainWord(name)
}
