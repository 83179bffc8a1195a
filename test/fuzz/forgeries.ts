import { randomBytes } from 'node:crypto'
import { signStandardWebhook } from '../sign-webhook.ts'
import type { Random } from '../simulation/random.ts'

/** A notification as the provider sent it. */
export type Notice = {
  readonly id: string
  readonly body: Buffer
  readonly headers: Readonly<Record<string, string>>
}

/** Makes something of a real notification that must not be believed. */
export type Forgery = (notice: Notice, random: Random, secret: string) => Notice

const otherSecret = `whsec_${randomBytes(32).toString('base64')}`

export const forgeries: Readonly<Record<string, Forgery>> = {
  'said in other bytes': (notice) => ({
    ...notice,
    body: Buffer.from(JSON.stringify(JSON.parse(notice.body.toString()), null, 1)),
  }),
  'about another payment': (notice, random) => ({
    ...notice,
    body: Buffer.from(
      notice.body.toString().replace(/"reference":"[^"]+"/, `"reference":"pay_${random.between(1, 1e9)}"`),
    ),
  }),
  truncated: (notice, random) => ({
    ...notice,
    body: notice.body.subarray(0, random.between(0, notice.body.length - 1)),
  }),
  'one byte more': (notice) => ({ ...notice, body: Buffer.concat([notice.body, Buffer.from(' ')]) }),
  'under a new id': (notice, random) =>
    withHeader(notice, 'webhook-id', `evt_forged_${random.between(1, 1e9)}`),
  'dated anew': (notice) =>
    withHeader(notice, 'webhook-timestamp', String(Number(notice.headers['webhook-timestamp']) + 1)),
  old: (notice, random, secret) => signedAt(notice, secret, -random.between(305, 100_000)),
  'from the future': (notice, random, secret) => signedAt(notice, secret, random.between(305, 100_000)),
  'signed by another': (notice) => signedAt(notice, otherSecret, 0),
  unsigned: (notice) => {
    const { 'webhook-signature': _gone, ...headers } = notice.headers
    return { ...notice, headers }
  },
  'without an id': (notice) => {
    const { 'webhook-id': _gone, ...headers } = notice.headers
    return { ...notice, headers }
  },
  'signature of another version': (notice) =>
    withHeader(notice, 'webhook-signature', notice.headers['webhook-signature']!.replace('v1,', 'v2,')),
  'signature cut': (notice) =>
    withHeader(notice, 'webhook-signature', notice.headers['webhook-signature']!.slice(0, -6)),
  'empty signature': (notice) => withHeader(notice, 'webhook-signature', 'v1,'),
}

function withHeader(notice: Notice, name: string, value: string): Notice {
  return { ...notice, headers: { ...notice.headers, [name]: value } }
}

/** Rightly signed, but for another time or with another key. */
export function signedAt(notice: Notice, secret: string, seconds: number): Notice {
  const at = new Date(Date.now() + seconds * 1000)
  return { ...notice, headers: signStandardWebhook(secret, notice.id, notice.body, at) }
}
