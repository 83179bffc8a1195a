import type { AddressInfo } from 'node:net'
import fastify from 'fastify'
import pg from 'pg'
import { verifyStandardWebhook } from '../src/billing/providers/standard-webhooks.ts'

/** The floor of an inbox: a bare handler that verifies the HMAC over the raw body and inserts one row, as durably. */
const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'], max: 20 })
const secrets = [process.env['WEBHOOK_SECRETS']!]
await pool.query(
  'create table if not exists public.bare_webhook (id text primary key, body bytea not null, received_at timestamptz not null)',
)
const http = fastify({ bodyLimit: 64 * 1024 })
http.removeAllContentTypeParsers()
http.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
http.post('/webhook', async (request, reply) => {
  const body = request.body as Buffer
  const verified = verifyStandardWebhook({ headers: request.headers, body, secrets, now: new Date() })
  if (!verified) return reply.code(401).send({ success: false })
  await pool.query({
    name: 'bare',
    text: 'insert into public.bare_webhook (id, body, received_at) values ($1, $2, now()) on conflict do nothing',
    values: [verified.eventId, body],
  })
  return { success: true }
})
await http.listen({ host: '127.0.0.1', port: 0 })
process.send!({ port: (http.server.address() as AddressInfo).port })
