import Type from 'typebox'
import type { App } from '../app.ts'
import { envelope, success } from '../platform/http/answers.ts'
import type { Http } from '../platform/http/http.ts'
import { refusalsOf } from '../platform/refusal.ts'
import type { Answer, ApiClient } from './api-client.ts'
import { demoBatch } from './demo-batch.ts'
import { demoBilling, demoSteps } from './demo-billing.ts'

const refuse = refusalsOf({
  demo_running: ['conflict', 'The demo is being made already; wait until it is there.'],
})

const Progress = Type.Object(
  {
    status: Type.Enum(['idle', 'running', 'done', 'failed']),
    part: Type.Enum(['', 'batch', 'billing']),
    done: Type.Integer(),
    of: Type.Integer(),
    note: Type.String(),
  },
  { title: 'DemoProgress' },
)

/** Fills a sandbox with a believable year, as `rankledger demo` does, and tells how far it is. This process makes it and knows. */
export function demoRoutes(http: Http, app: App): void {
  const config = { access: 'admin' as const }
  const tags = ['sandbox']
  let progress: Type.Static<typeof Progress> = { status: 'idle', part: '', done: 0, of: 0, note: '' }

  http.get(
    '/api/sandbox/demo',
    {
      config,
      schema: {
        operationId: 'getDemo',
        summary: 'How far the demo is',
        tags,
        response: { 200: success(Progress) },
      },
    },
    async () => envelope(progress),
  )

  http.post(
    '/api/sandbox/demo',
    {
      config,
      schema: {
        operationId: 'startDemo',
        errors: refuse.may('demo_running'),
        summary: 'Fill this sandbox with a believable year; billing moves the clock by a year',
        tags,
        body: Type.Object(
          { parts: Type.Array(Type.Enum(['batch', 'billing']), { minItems: 1, maxItems: 2 }) },
          { additionalProperties: false },
        ),
        response: { 202: success(Progress) },
      },
    },
    async (request, reply) => {
      if (progress.status === 'running') throw refuse('demo_running')
      const { parts } = request.body
      const { authorization, cookie } = request.headers
      const client = clientOf(http, {
        ...(authorization !== undefined && { authorization }),
        ...(cookie !== undefined && { cookie, 'x-console': '1' }),
      })
      const tell = (part: 'batch' | 'billing') => (done: number, of: number, note: string) => {
        progress = { status: 'running', part, done, of, note }
      }
      const make = async () => {
        // Billing moves the clock, and ranks go up to yesterday.
        if (parts.includes('billing')) {
          const show = tell('billing')
          await demoBilling(client, '', (done, note) => show(done, demoSteps, note))
        }
        if (parts.includes('batch')) {
          const show = tell('batch')
          await demoBatch(app.batch, { onProgress: (done, of) => show(done, of, '') })
        }
        progress = { ...progress, status: 'done', done: progress.of }
      }
      progress = { status: 'running', part: parts[0]!, done: 0, of: 1, note: '' }
      make().catch((error: unknown) => {
        app.log.warn('demo.failed', { error })
        progress = { ...progress, status: 'failed' }
      })
      return reply.code(202).send(envelope(progress))
    },
  )
}

/** The API as the caller reaches it, with the caller's own rights. */
function clientOf(http: Http, headers: Record<string, string>): ApiClient {
  const ask = async (method: 'GET' | 'POST', url: string, body?: unknown): Promise<Answer> => {
    const answer = await http.inject({
      method,
      url,
      headers: {
        host: 'localhost',
        ...headers,
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { payload: JSON.stringify(body) }),
    })
    const { data, error } = answer.json<{ data?: unknown; error?: { code: string } }>()
    return { status: answer.statusCode, data, code: error?.code }
  }
  return { url: '', get: (path) => ask('GET', path), post: (path, body) => ask('POST', path, body) }
}
