import { refuse } from '../refusals.ts'
import { cleanKeyword, type Keyword, keywordRefusals } from './keyword.ts'

/** Cleans every entry of a list, or refuses with every bad one named. */
export function cleanAll(
  raw: readonly unknown[],
  pathOf: (index: number) => string = (index) => `keywords[${index}]`,
): Keyword[] {
  const verdicts = raw.map(cleanKeyword)
  const details = verdicts.flatMap((verdict, index) =>
    verdict.refusal
      ? [{ path: pathOf(index), code: verdict.refusal, message: keywordRefusals[verdict.refusal] }]
      : [],
  )
  if (details.length > 0) throw refuse('invalid_keyword', { details })
  return verdicts as Keyword[]
}

/** Cleans the one keyword that a path or a query names. */
export function cleanOne(raw: string, path: string): Keyword {
  return cleanAll([raw], () => path)[0]!
}
