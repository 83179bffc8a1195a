/** Why a request cannot be done. The HTTP status follows from the kind; the code is for programs, the message for people. */
export type RefusalKind = keyof typeof statusOfKind

const statusOfKind = {
  malformed: 400,
  unauthorized: 401,
  declined: 402,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  conflict: 409,
  gone: 410,
  too_large: 413,
  unsupported_media: 415,
  expectation: 417,
  unprocessable: 422,
  limited: 429,
  provider_refused: 502,
  unavailable: 503,
} as const

export type RefusalDetail = { path: string; code: string; message: string } & Record<string, unknown>

/** A "no" that a caller is told about. It is neither a bug nor a doubt, so it carries no stack worth logging. */
export class Refusal extends Error {
  readonly kind: RefusalKind
  readonly code: string
  readonly details: readonly RefusalDetail[] | undefined
  readonly headers: Readonly<Record<string, string>>

  constructor(
    kind: RefusalKind,
    code: string,
    message: string,
    more: { details?: readonly RefusalDetail[]; headers?: Record<string, string> } = {},
  ) {
    super(message)
    this.name = 'Refusal'
    this.kind = kind
    this.code = code
    this.details = more.details
    this.headers = more.headers ?? {}
  }

  get status(): number {
    return statusOfKind[this.kind]
  }
}

/**
 * Makes an area's `refuse` from its table of refusals, so that a code outside the table is a compile error
 * and every sentence a caller may read stands in one place.
 */
export function refusalsOf<T extends Record<string, readonly [RefusalKind, string]>>(table: T) {
  const refuse = (
    code: keyof T & string,
    more: { message?: string; details?: readonly RefusalDetail[]; headers?: Record<string, string> } = {},
  ): Refusal => {
    const [kind, message] = table[code]!
    return new Refusal(kind, code, more.message ?? message, more)
  }
  /** For a route's schema, which tells the refusals it may answer: `errors: refuse.may('plan_not_found')`. */
  const may = (...codes: (keyof T & string)[]): DocumentedRefusal[] =>
    codes.map((code) => {
      const [kind, message] = table[code]!
      return { code, status: statusOfKind[kind], message }
    })
  return Object.assign(refuse, { may })
}

/** A refusal as the API document has it. */
export type DocumentedRefusal = { readonly code: string; readonly status: number; readonly message: string }

/** Refusals that belong to no area: HTTP itself, access, the limiter and idempotency. */
export const refuseRequest = refusalsOf({
  validation_failed: ['malformed', 'The request does not match what this route accepts; see details.'],
  invalid_json: ['malformed', 'The request body is not valid JSON.'],
  invalid_http: [
    'malformed',
    'This is no valid HTTP/1.1 request: it is malformed, or has not exactly one Host header.',
  ],
  expectation_failed: ['expectation', 'Only `Expect: 100-continue` is understood.'],
  invalid_idempotency_key: [
    'malformed',
    'Idempotency-Key takes 1 to 255 visible ASCII characters, quoted or bare.',
  ],
  unauthorized: ['unauthorized', 'A valid Bearer token is required.'],
  invalid_signature: ['unauthorized', 'The request signature is missing, wrong or too old.'],
  forbidden: ['forbidden', 'This token may not do this.'],
  cross_site: [
    'forbidden',
    'A session is used from the console alone: send X-Console: 1 from the same origin, or a Bearer token.',
  ],
  route_not_found: ['not_found', 'There is no such route; see /docs for the list.'],
  method_not_allowed: ['method_not_allowed', 'This route does not take that method; see the Allow header.'],
  request_in_progress: [
    'conflict',
    'The first request with this Idempotency-Key is still running; ask again shortly.',
  ],
  body_too_large: ['too_large', 'The request body is larger than this route accepts.'],
  unsupported_media_type: ['unsupported_media', 'Send the body as application/json.'],
  answer_erased: [
    'gone',
    'The account was erased, and with it the answer to this request; see details for what was done.',
  ],
  idempotency_key_reused: [
    'unprocessable',
    'This Idempotency-Key was used with another body; use a new key.',
  ],
  rate_limited: [
    'limited',
    'This workspace has used its 100 requests of the last minute; wait for Retry-After.',
  ],
  service_unavailable: [
    'unavailable',
    'The database cannot do its work just now; nothing was done, so ask again after Retry-After.',
  ],
})
