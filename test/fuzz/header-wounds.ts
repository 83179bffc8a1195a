import { isToken, newToken } from '../../src/platform/access/token.ts'
import type { Random } from '../simulation/random.ts'
import { plantedSecret } from './nasty-values.ts'
import type { Draft } from './sound-request.ts'
import { dropHeader, setHeader, type Wound } from './wound.ts'

/** What can be wrong with a request's headers. */
export const headerWounds: Readonly<Record<string, Wound>> = {
  'no good token'(random, draft, scene) {
    if (!draft.operation.secured) return false
    const token = scene.tokens[draft.k % scene.tokens.length]!
    const value = random.pick(badAuthorizations(token))
    dropHeader(draft, 'authorization')
    if (value !== undefined) draft.headers.push(['authorization', value])
    draft.expects = [401]
    comeFromElsewhere(random, draft)
    return true
  },
  'weak token'(random, draft, scene) {
    if (!draft.operation.secured) return false
    setHeader(draft, 'authorization', `Bearer ${random.pick(scene.weakTokens)}`)
    return true
  },
  'token spelled oddly'(random, draft, scene) {
    if (!draft.operation.secured) return false
    const token = scene.tokens[draft.k % scene.tokens.length]!
    setHeader(
      draft,
      'authorization',
      random.pick([`bearer ${token}`, `BEARER   ${token}  `, `Bearer\t${token}`]),
    )
    comeFromElsewhere(random, draft)
    return true
  },
  'content type'(random, draft) {
    if (draft.body === undefined) return false
    dropHeader(draft, 'content-type')
    const value = random.pick([undefined, ...contentTypes])
    if (value !== undefined) draft.headers.push(['content-type', value])
    return true
  },
  'content type twice'(_random, draft) {
    if (draft.body === undefined) return false
    draft.headers.push(['content-type', 'text/plain'])
    return true
  },
  'unasked body'(random, draft) {
    if (draft.body !== undefined) return false
    draft.body = Buffer.from(random.pick(['{}', '[]', 'x', '{"workspace_id":"ws-elsewhere"}', '']))
    draft.headers.push(['content-type', random.pick(['application/json', 'text/plain', 'image/png'])])
    return true
  },
  'idempotency key'(random, draft) {
    if (!onceRoutes.has(draft.operation.path)) return false
    setHeader(draft, 'idempotency-key', random.pick(badKeys))
    draft.expects = [400]
    return true
  },
  'request id'(random, draft) {
    setHeader(draft, 'x-request-id', random.pick(oddValues.filter((value) => value !== plantedSecret)))
    return true
  },
  'workspace header'(random, draft) {
    setHeader(draft, 'x-workspace-id', random.pick(oddValues))
    return true
  },
  'odd header'(random, draft) {
    const name = random.pick([
      'accept',
      'accept-encoding',
      'expect',
      'range',
      'if-none-match',
      'cookie',
      'origin',
      'x-forwarded-for',
      'x-http-method-override',
      'connection',
      'upgrade',
      'webhook-id',
      'webhook-signature',
      'webhook-timestamp',
      'stripe-signature',
    ])
    draft.headers.push([
      name,
      random.pick([...oddValues, 'DELETE', '100-continue', 'h2c', 'upgrade', 'close']),
    ])
    draft.fresh = true
    draft.mayClose = ['connection', 'upgrade'].includes(name)
    return true
  },
  'headers endless'(random, draft) {
    const length = random.pick([4_000, 17_000, 70_000])
    draft.headers.push(['x-padding', 'p'.repeat(length)])
    draft.reaches = false
    draft.fresh = true
    draft.mayClose = true
    return true
  },
  'signature turned'(random, draft) {
    const at = draft.headers.findIndex(([name]) => name === 'webhook-signature')
    if (at === -1) return false
    const [name, value] = random.pick(draft.headers.filter(([one]) => one.startsWith('webhook-')))
    const turned = random.pick([
      value.slice(0, -3),
      `${value}x`,
      value.toUpperCase(),
      '',
      '0',
      `v1,${'A'.repeat(43)}=`,
      plantedSecret,
    ])
    setHeader(draft, name, turned)
    if (turned !== value) draft.expects = [401]
    return true
  },
}

// The routes whose retries are safe; others have no use for the header.
const onceRoutes = new Set(
  ['subscribe', 'cancel', 'resume', 'refund', 'trial', 'payment-method', 'setup'].map(
    (name) => `/api/billing/${name}`,
  ),
)

const badKeys = [
  '',
  '""',
  '"',
  '"open',
  'x'.repeat(256),
  'with space',
  'tab\there',
  'caf\u00e9',
  '\u00ff'.repeat(10),
]

const oddValues = [
  '',
  'short',
  'x'.repeat(65),
  'with space in it',
  '\u00ff\u00fe',
  '"quoted"',
  '*',
  'a,b,c',
  "'; drop table x; --",
  plantedSecret,
]

const contentTypes = [
  'text/plain',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'application/json; charset=utf-16',
  'application/jsonx',
  'application/json, text/plain',
  'application/vnd.api+json',
  'json',
  '/',
  ';',
  '\u00ff',
  'APPLICATION/JSON',
  'application/json;charset=UTF-8',
]

function badAuthorizations(token: string): (string | undefined)[] {
  return [
    undefined,
    '',
    'Bearer',
    'Bearer ',
    `Basic ${Buffer.from('a:b').toString('base64')}`,
    token,
    `Bearer ${token.slice(0, -1)}`,
    `Bearer ${token}x`,
    `Bearer ${flipped(token)}`,
    `Bearer ${token} ${token}`,
    `Bearer ${token}, Bearer ${token}`,
    `Bearer "${token}"`,
    `Bearer ${newToken('test')}`,
    `Bearer ${newToken('live')}`,
    `Bearer ${'x'.repeat(4_000)}`,
    'Bearer \u00ff\u00fe',
    'Bearer null',
  ]
}

/** The token with two letters changed places, where that makes another one. */
function flipped(token: string): string {
  const changed = `${token.slice(0, 20)}${token[21]}${token[20]}${token.slice(22)}`
  return changed !== token && !isToken(changed) ? changed : `${token.slice(0, -1)}!`
}

/** Refused tokens are slowed down by address, which is right and would make the run long. */
function comeFromElsewhere(random: Random, draft: Draft): void {
  draft.fresh = true
  draft.from = `127.${random.between(1, 250)}.${random.between(1, 250)}.${random.between(1, 250)}`
}
