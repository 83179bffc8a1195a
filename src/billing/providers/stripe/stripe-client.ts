import Stripe from 'stripe'
import { type JsonAnswer, openFetchJson } from '../../../platform/fetch-json.ts'

/** The version of Stripe's API whose words this adapter understands; Stripe answers in it whatever the account is set to. */
const apiVersion = '2026-10-28.endive'

export type StripeClientOptions = {
  readonly secretKey: string
  readonly baseUrl?: string
  readonly timeoutMs: number
  readonly maxConnections?: number
}

// A page of a hundred intents with their charges.
const maxAnswerBytes = 8 * 1024 * 1024

/**
 * The official SDK over our own transport: nothing is sent twice, a call has one time limit from its first byte to the
 * answer's last, redirects are not followed, and it is known whether a connection came about at all.
 */
export function openStripeClient(options: StripeClientOptions): Stripe {
  const { timeoutMs, maxConnections } = options
  const fetchJson = openFetchJson({
    timeoutMs,
    maxAnswerBytes,
    ...(maxConnections && { maxConnections }),
  })
  const transport = async (
    url: unknown,
    init: { method?: string; headers?: unknown; body?: unknown } = {},
  ) => {
    const answer = await fetchJson({
      method: init.method === 'POST' ? 'POST' : 'GET',
      url: String(url),
      headers: headersOf(init.headers),
      ...(typeof init.body === 'string' && { body: init.body }),
    })
    return responseOf(answer)
  }
  const { protocol, hostname, port } = new URL(options.baseUrl ?? 'https://api.stripe.com')
  return new Stripe(options.secretKey, {
    apiVersion,
    httpClient: Stripe.createFetchHttpClient(transport as never),
    maxNetworkRetries: 0,
    // Ours strikes first and tells more.
    timeout: timeoutMs + 1_000,
    telemetry: false,
    protocol: protocol === 'http:' ? 'http' : 'https',
    host: hostname,
    port: port === '' ? (protocol === 'http:' ? 80 : 443) : Number(port),
  })
}

/** No connection came about: certainly nothing was done. */
export class NotSent extends Error {}

function responseOf(answer: JsonAnswer): Response {
  if (answer.kind === 'not_sent') throw new NotSent('no connection came about')
  if (answer.kind === 'unknown') throw new Error('there was no answer')
  // The SDK takes whatever names no error for a success, redirects and failures of a proxy among them.
  if ((answer.status < 200 || answer.status > 299) && !namesError(answer.body))
    throw new Error('the answer is not one of Stripe')
  const headers = new Headers()
  for (const [name, value] of Object.entries(answer.headers)) {
    if (typeof value === 'string') headers.set(name, value)
  }
  const body = answer.body === undefined ? 'this is not JSON' : JSON.stringify(answer.body)
  return new Response(hasNoBody(answer.status) ? null : body, { status: answer.status, headers })
}

function namesError(body: unknown): boolean {
  const error = (body as { error?: unknown } | null | undefined)?.error
  return typeof error === 'object' && error !== null
}

function hasNoBody(status: number): boolean {
  return status === 204 || status === 304
}

function headersOf(given: unknown): Record<string, string> {
  return Object.fromEntries(
    (Array.isArray(given) ? given : Object.entries(given ?? {})).map(([name, value]) => [
      String(name).toLowerCase(),
      String(value),
    ]),
  )
}
