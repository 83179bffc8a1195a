import Type from 'typebox'
import { volumeKinds } from './monthly-volume.ts'
import { greatestVolume, sourcePattern } from './volume-observation.ts'

export const Source = Type.String({
  pattern: sourcePattern.source,
  description: 'Who says so: 1 to 64 of A-Za-z0-9_.:-',
})

const Volume = (description: string) => Type.Integer({ minimum: 0, maximum: greatestVolume, description })

/** The form of an observation, over HTTP and in files. */
export const VolumeForm = Type.Object(
  {
    // May be anything here: the keyword rule itself says what is wrong with it.
    keyword: Type.Unknown({ description: 'A keyword' }),
    source: Source,
    kind: Type.Enum([...volumeKinds]),
    day: Type.String({
      pattern: '^\\d{4}-\\d\\d-\\d\\d$',
      description: 'The day, the last of the 30 days, or any day of the month',
    }),
    volume: Type.Optional(Volume('How often it was searched')),
    volume_max: Type.Optional(Volume('The most it can be, where the source says no more: "< 10" is 9')),
    pc: Type.Optional(Volume('The part of it on computers')),
    mobile: Type.Optional(Volume('The part of it on phones')),
  },
  { additionalProperties: false },
)
