import { setTimeout as sleep } from 'node:timers/promises'

/** The demo cannot go on, and one sentence says why. */
export class DemoFailed extends Error {
  override name = 'DemoFailed'
}

/** The service as any client sees it: its address and a token. */
export type ApiClient = {
  readonly url: string
  get(path: string): Promise<Answer>
  post(path: string, body: unknown): Promise<Answer>
}

// biome-ignore lint/suspicious/noExplicitAny: the fields read are those the API documents
export type Answer = { readonly status: number; readonly data: any; readonly code: string | undefined }

export function openApiClient(url: string, token: string): ApiClient {
  const ask = async (method: 'GET' | 'POST', path: string, body?: unknown): Promise<Answer> => {
    for (let tries = 1; ; tries++) {
      const answer = await fetch(url + path, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      }).catch(() => undefined)
      if (!answer) {
        throw new DemoFailed(
          `No service answers at ${url}. Start one in another terminal with \`npm start\`, then run this again; HOST and PORT tell where it listens.`,
        )
      }
      const { data, error } = (await answer.json().catch(() => ({}))) as {
        data?: unknown
        error?: { code: string }
      }
      if (answer.status !== 503 || tries === 5) return { status: answer.status, data, code: error?.code }
      await sleep(1_000)
    }
  }
  return { url, get: (path) => ask('GET', path), post: (path, body) => ask('POST', path, body) }
}
