import type { FastifySchemaCompiler } from 'fastify'
import type { TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import type { TLocalizedValidationError } from 'typebox/error'
import { Value } from 'typebox/value'
import { type Refusal, type RefusalDetail, refuse } from '../refusal.ts'

/**
 * Compiles a route's schemas. Bodies are taken as they are: `"7"` is no integer and an unknown field is an error.
 * Query strings and paths can only carry text, so there, and only there, text becomes the number the schema asks for.
 */
export const validatorCompiler: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const check = Compile(schema)
  const fromText = httpPart !== 'body'
  return (input: unknown) => {
    const value = fromText ? Value.Convert(schema, input) : input
    if (check.Check(value)) return { value }
    return { error: validationFailed(schema, check.Errors(value)) }
  }
}

function validationFailed(schema: TSchema, errors: TLocalizedValidationError[]): Refusal {
  const details = errors.flatMap((error) => detailsOf(schema, error))
  const first = new Map<string, RefusalDetail>()
  for (const detail of details) if (!first.has(detail.path)) first.set(detail.path, detail)
  return refuse('validation_failed', { details: [...first.values()].slice(0, 100) })
}

function detailsOf(schema: TSchema, error: TLocalizedValidationError): RefusalDetail[] {
  const path = pathOf(error.instancePath)
  const params = error.params as Record<string, unknown>
  switch (error.keyword) {
    case 'required':
      return names(params['requiredProperties']).map((name) => ({
        path: join(path, name),
        code: 'required',
        message: 'This field is required.',
      }))
    case 'additionalProperties':
      return names(params['additionalProperties']).map((name) => ({
        path: join(path, name),
        code: 'unknown_field',
        message: 'This route takes no such field.',
      }))
    // The parts of a choice and the `false` schema behind an unknown field: the error above them says it all.
    case 'boolean':
      return []
    default:
      if (/\/anyOf\/\d+/.test(error.schemaPath)) return []
      return [{ path: path || 'body', code: codeOf(schema, error), message: `This value ${error.message}.` }]
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

/** A schema may name its own code for a failure: `{ 'x-codes': { maxItems: 'too_many_keywords' } }`. */
function codeOf(schema: TSchema, error: TLocalizedValidationError): string {
  let at: unknown = schema
  for (const step of error.schemaPath.split('/').slice(1))
    at = (at as Record<string, unknown> | undefined)?.[step]
  const own = (at as { 'x-codes'?: Record<string, string> } | undefined)?.['x-codes']?.[error.keyword]
  return own ?? codes[error.keyword] ?? 'invalid'
}

/** `/keywords/3` reads `keywords[3]`. */
function pathOf(pointer: string): string {
  return pointer
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~').slice(0, 64))
    .reduce((path, step) => (/^\d+$/.test(step) ? `${path}[${step}]` : join(path, step)), '')
}

function join(path: string, name: string): string {
  return path ? `${path}.${name.slice(0, 64)}` : name.slice(0, 64)
}

function names(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : []
}
