import type { Random } from '../simulation/random.ts'
import { anyValue, nastyNumbers, nastyTexts, plantedSecret, unstorableTexts } from './nasty-values.ts'
import type { Schema } from './operations.ts'
import { type Draft, setBody, setJson } from './sound-request.ts'
import type { Wound } from './wound.ts'

/** Bodies whose JSON says the wrong thing. What the document's own schema refuses must be answered 400. */
export const saidWrong: Readonly<Record<string, Wound>> = {
  'field missing': intoPlaces((random, { parent, key }) => {
    if (Array.isArray(parent)) parent.splice(Number(key), 1)
    else delete parent[key]
    return random
  }),
  'any value': intoPlaces((random, { parent, key }) => {
    parent[key] = anyValue(random)
  }),
  'nasty text': intoPlaces((random, { parent, key }) => {
    parent[key] = random.pick(nastyTexts)
  }),
  'nasty number': intoPlaces((random, { parent, key }) => {
    parent[key] = random.pick(nastyNumbers)
  }),
  'unstorable text'(random, draft) {
    if (draft.json === undefined || draft.operation.body === undefined) return false
    const whole = { json: structuredClone(draft.json) }
    const places = placesIn(whole, 'json', draft.operation.body).filter(isFreeText)
    for (const { parent, key } of places) parent[key] = random.pick(unstorableTexts)
    return settled(draft, whole.json, places.length > 0)
  },
  'at the limit': intoPlaces((random, { parent, key, schema }) => {
    parent[key] = atLimit(random, schema, parent[key])
  }),
  'planted card': intoPlaces((random, { parent, key }) => {
    parent[key] = random.pick([plantedSecret, [plantedSecret], Number(plantedSecret)])
  }),
  'field too many': intoPlaces((random, { parent }) => {
    if (Array.isArray(parent)) parent.push(anyValue(random))
    else
      Object.defineProperty(
        parent,
        random.pick(['surplus', '__proto__', 'constructor', '', 'Amount', '\u0000']),
        {
          value: anyValue(random),
          enumerable: true,
        },
      )
  }),
}

/** Bodies that are no JSON, or not the JSON they look like. */
export const writtenWrong: Readonly<Record<string, Wound>> = {
  truncated: rewritten((random, body) => body.subarray(0, random.between(0, body.length - 1))),
  'trailing bytes': rewritten((random, body) =>
    Buffer.concat([body, Buffer.from(random.pick(['}', ',', '\u0000', body.toString(), ' x']))]),
  ),
  'one byte turned': rewritten((random, body) => {
    const turned = Buffer.from(body)
    turned[random.between(0, body.length - 1)] = random.between(0, 255)
    return turned
  }),
  'invalid UTF-8': rewritten((random, body) => {
    const at = body.lastIndexOf('"')
    const bytes = random.pick([[0xff], [0xc3, 0x28], [0xed, 0xa0, 0x80], [0xf0, 0x9f], [0xc0, 0x80]])
    return Buffer.concat([body.subarray(0, at), Buffer.from(bytes), body.subarray(at)])
  }),
  'other encoding': rewritten((random, body) =>
    random.pick([
      Buffer.from(body.toString(), 'utf16le'),
      Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), body]),
    ]),
  ),
  'not JSON': rewritten((random) =>
    Buffer.from(
      random.pick([
        '',
        ' ',
        'null',
        'true',
        '7',
        '"text"',
        '[]',
        '{}',
        'NaN',
        '{"a":NaN}',
        "{'a':1}",
        '{a:1}',
        '{"a":1,}',
        '{"a":0x10}',
        '{"a":"\n"}',
        'a=1&b=2',
        '<a/>',
      ]),
    ),
  ),
  'nested deep': rewritten((random) => {
    const depth = random.pick([17, 100, 10_000, 60_000])
    return Buffer.from(
      random.chance(0.5) ? '['.repeat(depth) : `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`,
    )
  }),
  'key twice': rewritten((_random, body) => {
    const text = body.toString()
    return Buffer.from(text.length > 2 ? `${text.slice(0, -1)},${text.slice(1)}` : text)
  }),
  'very large': rewritten((random, body, draft) => {
    draft.fresh = true
    const size = random.pick([64, 256, 2048]) * 1024 + 1
    return Buffer.concat([body, Buffer.alloc(Math.max(0, size - body.length), ' ')])
  }),
}

function rewritten(rewrite: (random: Random, body: Buffer, draft: Draft) => Buffer): Wound {
  return (random, draft) => {
    if (draft.body === undefined || draft.body.length === 0) return false
    setBody(draft, rewrite(random, draft.body, draft))
    draft.expects = expectedOf(draft)
    return true
  }
}

type Place = { parent: Record<string, unknown>; key: string; schema: Schema }

/** Does harm at one place of the JSON, chosen by lot. */
function intoPlaces(harm: (random: Random, place: Place) => unknown): Wound {
  return (random, draft) => {
    if (draft.json === undefined || draft.operation.body === undefined) return false
    const whole = { json: structuredClone(draft.json) }
    const places = placesIn(whole, 'json', draft.operation.body)
    harm(random, random.pick(places.length > 1 ? places.slice(1) : places))
    return settled(draft, whole.json, true)
  }
}

function settled(draft: Draft, json: unknown, harmed: boolean): boolean {
  if (!harmed) return false
  setJson(draft, json)
  draft.expects = expectedOf(draft)
  return true
}

/** Text that no rule restricts, and that is therefore on its way to the database. */
function isFreeText({ parent, key, schema }: Place): boolean {
  return typeof parent[key] === 'string' && schema.pattern === undefined && schema.enum === undefined
}

/** The value itself, and every value within it. */
function placesIn(parent: Record<string, unknown>, key: string, schema: Schema): Place[] {
  const value = parent[key]
  const here: Place = { parent, key, schema }
  if (typeof value !== 'object' || value === null) return [here]
  const within = Object.keys(value).flatMap((name) =>
    placesIn(value as Record<string, unknown>, name, partOf(schema, name, Array.isArray(value))),
  )
  return [here, ...within]
}

function partOf(schema: Schema, name: string, inArray: boolean): Schema {
  const one = inArray ? schema.items : schema.properties?.[name]
  return one ?? schema.anyOf?.map(({ properties }) => properties?.[name]).find(Boolean) ?? {}
}

/** The last allowed value, or the first that is not. */
function atLimit(random: Random, schema: Schema, value: unknown): unknown {
  const off = random.pick([0, 0, 1, -1])
  if (Array.isArray(value)) {
    const length = Math.max(0, (random.chance(0.7) ? (schema.maxItems ?? 100) : (schema.minItems ?? 0)) + off)
    return Array.from({ length }, (_, at) => value[at % Math.max(1, value.length)] ?? `filler ${at}`)
  }
  if (typeof value === 'number')
    return (random.chance(0.6) ? schema.maximum : schema.minimum) ?? 2 ** 53 + off
  // A pattern may be what says how long a text is.
  const [, least, most] = /\{(\d+),(\d+)\}\$$/.exec(schema.pattern ?? '') ?? []
  const shortest = schema.minLength ?? Number(least ?? 0)
  const longest = schema.maxLength ?? Number(most ?? 80)
  const length = Math.max(0, (random.chance(0.7) ? longest : shortest) + off)
  return random.pick(['x', '가', '😀', '\u0301']).repeat(length)
}

/** What the document says about this body: 400 if it is no JSON or not of its schema, else nothing. */
function expectedOf({ body, operation }: Draft): readonly number[] | undefined {
  if (body === undefined || operation.body === undefined || body.length > smallestLimit) return undefined
  try {
    return operation.takes(
      JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)),
    )
      ? undefined
      : [400]
  } catch (error) {
    // Bytes that are no UTF-8 may be read as replacement characters, and the rest may be well.
    return error instanceof SyntaxError ? [400] : undefined
  }
}

// A larger body may be refused for its size before anybody reads it.
const smallestLimit = 64 * 1024
