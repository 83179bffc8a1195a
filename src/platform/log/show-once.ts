import { writeSync } from 'node:fs'

/**
 * Writes a token where the operator who asked for it can read it. The one exception to the rule that nothing secret
 * is printed: `token create` and the sandbox's start banner use it, and it goes past the log and the guard.
 */
export function showOnce(text: string): void {
  writeSync(1, text.endsWith('\n') ? text : `${text}\n`)
}
