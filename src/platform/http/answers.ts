import Type, { type Static, type TArray, type TSchema, type TUnsafe } from 'typebox'
import { Refusal } from '../refusal.ts'

/** The envelope of every success. What has a title stands in the API document once, under that name; so does its envelope. */
export function success<T extends TSchema>(data: T) {
  const { title } = data as { title?: string }
  return Type.Object(
    { success: Type.Literal(true), data },
    title === undefined ? {} : { title: `${title}Answer` },
  )
}

export function envelope<T>(data: T): { success: true; data: T } {
  return { success: true, data }
}

/** A page of a list: the items under their plural name, and where to go on. */
export function page<T extends TSchema, const N extends string>(name: N, item: T) {
  const properties = { [name]: Type.Array(item), next_cursor: nullable(Type.String()) }
  return success(Type.Object(properties as { [K in N]: TArray<T> } & { next_cursor: TUnsafe<string | null> }))
}

/** A value that may be null, written as a list of types: quick to serialise, and what OpenAPI 3.1 expects. */
export function nullable<T extends TSchema>(schema: T, named: { title?: string } = {}) {
  // A title makes a component of a schema, and this is another one than that which may not be null.
  const { type, title: _, ...rest } = schema as unknown as { type: string; title?: string }
  return Type.Unsafe<Static<T> | null>({ ...rest, type: [type, 'null'], ...named })
}

export const ErrorBody = Type.Object({
  success: Type.Literal(false),
  error: Type.Object({
    code: Type.String(),
    type: Type.Optional(Type.String({ description: "The exception's type name; on 500 only." })),
    message: Type.String(),
    request_id: Type.String(),
    details: Type.Optional(
      Type.Array(
        Type.Object(
          { path: Type.String(), code: Type.String(), message: Type.String() },
          { additionalProperties: true },
        ),
      ),
    ),
  }),
})

// Answers are for the program that asked: nothing guesses at their type, keeps them, or shows them in a frame.
export const guardingHeaders = {
  'x-content-type-options': 'nosniff',
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
} as const

export type ErrorAnswer = {
  status: number
  headers: Readonly<Record<string, string>>
  body: Static<typeof ErrorBody>
}

export function errorAnswer(refusal: Refusal, requestId: string): ErrorAnswer {
  const { code, message, details } = refusal
  return {
    status: refusal.status,
    headers: refusal.headers,
    body: {
      success: false,
      error: {
        code,
        message,
        request_id: requestId,
        ...(details && { details: details.map((detail) => ({ ...detail })) }),
      },
    },
  }
}

/** All a caller learns of a fault of ours: its type and the id under which the log has the rest. */
export function faultAnswer(error: unknown, requestId: string): ErrorAnswer {
  return {
    status: 500,
    headers: {},
    body: {
      success: false,
      error: {
        code: 'internal_error',
        type: typeNameOf(error),
        message: 'The service failed to answer; quote the request id when you ask about it.',
        request_id: requestId,
      },
    },
  }
}

function typeNameOf(error: unknown): string {
  const name = error instanceof Error ? error.constructor.name : typeof error
  return /^[A-Za-z_$][\w$]{0,63}$/.test(name) ? name : 'Error'
}

/** Fastify's own errors, said in our words. What is not known here is a fault. */
export function refusalOfFramework(
  error: { code?: string; statusCode?: number },
  refuse: RefuseFramework,
): Refusal | undefined {
  if (error instanceof Refusal) return error
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return refuse('body_too_large')
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return refuse('unsupported_media_type')
    case 'FST_ERR_CTP_EMPTY_JSON_BODY':
    case 'FST_ERR_CTP_INVALID_JSON_BODY':
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return refuse('invalid_json')
    case 'FST_ERR_BAD_URL':
    case 'FST_ERR_MAX_PARAM_LENGTH':
    // A method that no route takes, and that has to bring a body.
    case 'FST_ERR_ROUTE_MISSING_CONTENT_TYPE':
      return refuse('route_not_found')
    default:
      return undefined
  }
}

type RefuseFramework = (
  code: 'body_too_large' | 'unsupported_media_type' | 'invalid_json' | 'route_not_found',
) => Refusal
