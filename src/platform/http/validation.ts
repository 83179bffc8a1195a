import type { FastifySchemaCompiler, SafePromiseLike } from 'fastify'
import type { TSchema } from 'typebox'
import { Compile, type Validator } from 'typebox/compile'
import type { TLocalizedValidationError } from 'typebox/error'
import { Settings } from 'typebox/system'
import { Value } from 'typebox/value'
import { pieces } from '../pieces.ts'
import { type Refusal, type RefusalDetail, refuseRequest } from '../refusal.ts'
import { boundedPart, listsTooLong, requireBounds } from './bounded-part.ts'
import { fieldName, fieldPath } from './field-path.ts'

// The library stops at eight by itself, and counts an unknown field twice.
Settings.Set({ maxErrors: 256 })

/**
 * Compiles a route's schemas. Bodies are taken as they are: `"7"` is no integer and an unknown field is an error.
 * Query strings and paths can only carry text, so there, and only there, text becomes the number the schema asks for.
 */
export const validatorCompiler: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  // As late as serializers, and for the same reason.
  let compiled: Validator | undefined
  const check = () => {
    compiled ??= Compile(schema)
    return compiled
  }
  const fromText = httpPart !== 'body' && !takesOnlyText(schema)
  requireBounds(schema)
  return (input: unknown) => {
    const value = fromText ? valuesFromText(schema, input as Texts) : input
    // Said before anything else is looked at: a list too long is not worth a walk.
    const tooLong = listsTooLong(schema, value)
    if (tooLong.length === 0) {
      const list = longListIn(schema, value)
      if (list) return checkInPieces(list) as unknown as SafePromiseLike<true>
      if (check().Check(value)) return { value }
    }
    return { error: refusalOf(value, tooLong) }
  }

  function refusalOf(value: unknown, tooLong: readonly RefusalDetail[]): Refusal {
    return validationFailed(schema, check().Errors(boundedPart(schema, value)), tooLong)
  }

  /** A body is as it should be if it is so with each part of its list. The framework wants to be thrown at here. */
  async function checkInPieces({ name, value }: { name: string; value: Record<string, unknown> }) {
    for await (const piece of pieces(value[name] as unknown[]))
      if (!check().Check({ ...value, [name]: piece })) throw refusalOf(value, [])
    return true
  }
}

/** Nothing in it would have to become a number: then text is what it is, and converting it costs more than checking it. */
function takesOnlyText({ properties }: { properties?: Record<string, unknown> }): boolean {
  return Object.values(properties ?? {}).every((field) => (field as { type?: unknown }).type === 'string')
}

type Texts = Record<string, unknown>

/** What a query or a path says, with the types that the schema asks for. */
function valuesFromText({ properties = {} }: { properties?: Record<string, TSchema> }, texts: Texts): Texts {
  const values = { ...texts }
  for (const [name, field] of Object.entries(properties)) {
    const text = texts[name]
    if (typeof text === 'string' && (!isInteger(field) || digits.test(text)))
      values[name] = Value.Convert(field, text)
  }
  return values
}

// The language itself also reads `1e1`, `0x10` and ` 5`, and nothing at all, as numbers.
const digits = /^-?\d+$/

const isInteger = (field: TSchema) => (field as { type?: unknown }).type === 'integer'

const longList = 200

/** The list of a body, if it is too long to be looked at in one go. */
function longListIn(
  { properties }: { properties?: Record<string, unknown> },
  value: unknown,
): { name: string; value: Record<string, unknown> } | undefined {
  for (const name of Object.keys(properties ?? {})) {
    const list = (value as Record<string, unknown> | null)?.[name]
    if (Array.isArray(list) && list.length > longList)
      return { name, value: value as Record<string, unknown> }
  }
  return undefined
}

const mostDetails = 100

function validationFailed(
  schema: TSchema,
  errors: TLocalizedValidationError[],
  tooLong: readonly RefusalDetail[],
): Refusal {
  const isTooLong = ({ path }: RefusalDetail) => tooLong.some((list) => list.path === path)
  const details = errors.flatMap((error) => detailsOf(schema, error)).filter((one) => !isTooLong(one))
  const first = new Map<string, RefusalDetail>()
  for (const detail of [...details, ...tooLong]) if (!first.has(detail.path)) first.set(detail.path, detail)
  return refuseRequest('validation_failed', { details: [...first.values()].slice(0, mostDetails) })
}

function detailsOf(schema: TSchema, error: TLocalizedValidationError): RefusalDetail[] {
  const path = fieldPath(error.instancePath)
  const params = error.params as Record<string, unknown>
  switch (error.keyword) {
    case 'required':
      return names(params['requiredProperties']).map((name) => ({
        path: fieldName(path, name),
        code: 'required',
        message: 'This field is required.',
      }))
    case 'additionalProperties':
      return names(params['additionalProperties']).map((name) => ({
        path: fieldName(path, name),
        code: 'unknown_field',
        message: `This route takes no such field${takenInstead(schema, error)}.`,
      }))
    // The parts of a choice and the `false` schema behind an unknown field: the error above them says it all.
    case 'boolean':
      return []
    default:
      if (/\/anyOf\/\d+/.test(error.schemaPath)) return []
      return [
        {
          path: path || 'body',
          code: ownWords(schema, error, 'x-codes') ?? codes[error.keyword] ?? 'invalid',
          message: ownWords(schema, error, 'x-messages') ?? `This value ${error.message}.`,
        },
      ]
  }
}

const codes: Record<string, string> = {
  type: 'wrong_type',
  enum: 'not_allowed',
  const: 'not_allowed',
  anyOf: 'not_allowed',
  pattern: 'wrong_form',
  minLength: 'too_short',
  maxLength: 'too_long',
  minItems: 'too_few',
  maxItems: 'too_many',
  minimum: 'too_small',
  maximum: 'too_large',
  minProperties: 'too_few',
}

/** A schema may say a failure in its own words: `{ 'x-codes': { maxItems: 'too_many_keywords' } }`, `x-messages` alike. */
function ownWords(
  schema: TSchema,
  error: TLocalizedValidationError,
  kind: 'x-codes' | 'x-messages',
): string | undefined {
  const at = schemaAt(schema, error) as Record<string, Record<string, string>> | undefined
  return at?.[kind]?.[error.keyword]
}

const mostNamed = 20

function takenInstead(schema: TSchema, error: TLocalizedValidationError): string {
  const { properties = {} } = (schemaAt(schema, error) ?? {}) as { properties?: object }
  const fields = Object.keys(properties)
  return fields.length === 0 || fields.length > mostNamed ? '' : `; it takes ${fields.join(', ')}`
}

function schemaAt(schema: TSchema, error: TLocalizedValidationError): unknown {
  let at: unknown = schema
  for (const step of error.schemaPath.split('/').slice(1))
    at = (at as Record<string, unknown> | undefined)?.[step]
  return at
}

function names(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : []
}

/** One field that has the right form and still cannot be taken. */
export function invalidField(path: string, message: string): Refusal {
  return refuseRequest('validation_failed', { details: [{ path, code: 'invalid', message }] })
}
