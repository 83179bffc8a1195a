import Stripe from 'stripe'
import { openFetchText, type TextAnswer } from '../../../platform/fetch-json.ts'

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
  const fetchText = openFetchText({
    timeoutMs,
    maxAnswerBytes,
    ...(maxConnections && { maxConnections }),
  })
  const transport = async (
    url: unknown,
    init: { method?: string; headers?: unknown; body?: unknown } = {},
  ) => {
    const answer = await fetchText({
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

/** What the SDK and we read of a `Response`; making a real one costs more than the rest of the call. */
function responseOf(answer: TextAnswer) {
  if (answer.kind === 'not_sent') throw new NotSent('no connection came about')
  if (answer.kind === 'unknown') throw new Error('there was no answer')
  const { status, text } = answer
  // The SDK takes whatever names no error for a success, redirects and failures of a proxy among them.
  if ((status < 200 || status > 299) && !namesError(text)) throw new Error('the answer is not one of Stripe')
  const headers = new Map(Object.entries(answer.headers).filter(([, value]) => typeof value === 'string'))
  return { status, headers, text: async () => text }
}

function namesError(text: string): boolean {
  try {
    const { error } = JSON.parse(text) as { error?: unknown }
    return typeof error === 'object' && error !== null
  } catch {
    return false
  }
}

function headersOf(given: unknown): Record<string, string> {
  return Object.fromEntries(
    (Array.isArray(given) ? given : Object.entries(given ?? {})).map(([name, value]) => [
      String(name).toLowerCase(),
      String(value),
    ]),
  )
}
