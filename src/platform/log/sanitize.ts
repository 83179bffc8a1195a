import { maskNamedResult } from './2-mask-names.ts'
import { maskText } from './3-mask-values.ts'

/** Takes a sentence for the operator through names and values, where no log is open yet or any more. */
export function sanitize(text: string): string {
  return maskText(maskNamedResult(text))
}
