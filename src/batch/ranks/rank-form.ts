import Type from 'typebox'
import { rankStatuses, seriesNamePattern } from './rank.ts'

const Series = (description: string) =>
  Type.String({ pattern: seriesNamePattern.source, description: `${description}: 1 to 64 of A-Za-z0-9_.:-` })

const longestUrl = 2048
const urlPattern = '^[^\\x00-\\x1f\\x7f]*$'
const urlShape = new RegExp(urlPattern)

/** Whether a rank may have this address, which a source may write as it likes. */
export function isRankUrl(text: string): boolean {
  return text.length <= longestUrl && urlShape.test(text)
}

/**
 * The form of an observation, over HTTP and in files. Whether a value is of the right kind is told here; whether it
 * makes sense is told by `readRank`, row by row.
 */
export const RankForm = Type.Object(
  {
    keyword: Type.String(),
    day: Type.String({
      title: 'Day',
      pattern: '^\\d{4}-\\d\\d-\\d\\d$',
      description: 'A day such as 2026-11-14',
    }),
    status: Type.Enum([...rankStatuses]),
    position: Type.Optional(
      Type.Number({ description: 'With `ranked`, and only then: 1 to `searched_depth`' }),
    ),
    mean_position: Type.Optional(
      Type.Number({
        description: 'Where the place is a mean over many searches: that mean, unrounded',
      }),
    ),
    searched_depth: Type.Optional(Type.Number({ default: 100 })),
    url: Type.Optional(Type.String({ maxLength: longestUrl, pattern: urlPattern })),
    reason: Type.Optional(
      Type.String({
        pattern: '^[a-z0-9_]{1,64}$',
        description: 'With `failed`, and only then: what went wrong, as a code such as timeout',
      }),
    ),
    engine: Type.Optional(Series('The search engine, by default naver')),
    device: Type.Optional(Series('The device, by default mobile')),
    location: Type.Optional(Series('The place searched from, by default KR')),
    checked_at: Type.Optional(
      Type.String({
        pattern: '[Tt].*(?:[Zz]|[+-]\\d\\d(?::?\\d\\d)?)$',
        maxLength: 64,
        description:
          'When it was checked, with a UTC offset; by default now. Of two checks the later one is kept.',
      }),
    ),
  },
  { additionalProperties: false },
)
