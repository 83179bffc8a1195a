import { unseen } from '../platform/http/fields.ts'
import { UsageError } from './command.ts'

const shown = new RegExp(`^[^\\t-\\r${unseen}]*$`)

/** A text of one line, by the rule of the API: what a page, an invoice or a terminal would not show is refused. */
export function readLine(flag: string, text: string, most: number, least = 1): string {
  if (text.length >= least && text.length <= most && shown.test(text)) return text
  throw new UsageError(
    `${flag} takes one line of ${least === 0 ? 'at most' : `${least} to`} ${most} characters, without control characters.`,
  )
}
