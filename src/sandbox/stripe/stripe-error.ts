/** A "no" in Stripe's words. `kept`: it is remembered under the request's key, because its work had begun. */
export class StripeAnswer extends Error {
  readonly status: number
  readonly body: string
  readonly isKept: boolean

  constructor(status: number, error: Readonly<Record<string, unknown>>, { isKept = false } = {}) {
    super('an answer in the words of Stripe')
    this.status = status
    this.body = JSON.stringify({ error })
    this.isKept = isKept
  }
}

export function invalid(
  message: string,
  more: { code?: string; param?: string; status?: number } = {},
): StripeAnswer {
  const { status = 400, ...named } = more
  return new StripeAnswer(status, { ...named, message, type: 'invalid_request_error' })
}

export function missing(kind: string, id: string, param = 'id', status = 404): StripeAnswer {
  return invalid(`No such ${kind}: '${id}'`, { code: 'resource_missing', param, status })
}

export const unauthorized = () =>
  new StripeAnswer(401, { message: 'Invalid API Key provided.', type: 'invalid_request_error' })

export const brokenDown = () =>
  new StripeAnswer(500, { message: 'An unknown error occurred.', type: 'api_error' })

export const unavailable = () =>
  new StripeAnswer(503, { message: 'The service is not available just now.', type: 'api_error' })

export const keyUsedOtherwise = () =>
  new StripeAnswer(400, {
    message:
      'Keys for idempotent requests can only be used with the same parameters they were first used with.',
    type: 'idempotency_error',
  })

export const keyInUse = () =>
  new StripeAnswer(409, {
    code: 'idempotency_key_in_use',
    message: 'There is another request in progress with the same idempotency key.',
    type: 'idempotency_error',
  })
