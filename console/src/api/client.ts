import createClient from 'openapi-fetch'
import type { paths } from './schema.ts'

/** The public API, by the session's cookie. Anything but GET says that the console asks. */
export const client = createClient<paths>({
  baseUrl: '/',
  credentials: 'same-origin',
  headers: { 'x-console': '1' },
  fetch: (request: Request) =>
    globalThis.fetch(request).catch((error: unknown) => {
      // Nobody was reached, which every browser says in words of its own.
      throw request.signal.aborted ? error : new ApiError(0, undefined)
    }),
})

// Behind a replica a page must show what was just done on it, whichever process answers.
let written: string | undefined
client.use({
  onRequest({ request }) {
    if (written !== undefined) request.headers.set('x-write-position', written)
  },
  onResponse({ response }) {
    written = response.headers.get('x-write-position') ?? written
  },
})

export type Detail = { path: string; code: string; message: string; [more: string]: unknown }

/** The API said no, or could not say anything. */
export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly requestId: string
  readonly details: readonly Detail[]

  constructor(status: number, body: unknown) {
    const { error } = (body ?? {}) as {
      error?: { code: string; message: string; request_id: string; details?: Detail[] }
    }
    super(error?.message ?? 'The service does not answer.')
    this.status = status
    this.code = error?.code ?? 'unreachable'
    this.requestId = error?.request_id ?? ''
    this.details = error?.details ?? []
  }
}

export type Fetched<T> = {
  data?: { success: true; data: T } | undefined
  error?: unknown
  response: Response
}

/** The data of an answer; throws what the API refused. */
export async function dataOf<T>(asked: Fetched<T> | Promise<Fetched<T>>): Promise<T> {
  const { data, error, response } = await asked
  if (data?.success) return data.data
  throw new ApiError(response.status, error)
}
