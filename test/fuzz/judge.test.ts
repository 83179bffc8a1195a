import { expect, test } from 'vitest'
import { seededRandom } from '../simulation/random.ts'
import type { Change } from './change-watch.ts'
import { judge } from './judge.ts'
import { plantedSecret } from './nasty-values.ts'
import { operationsOf } from './operations.ts'
import type { Scene } from './scene.ts'
import { type Draft, soundRequest } from './sound-request.ts'
import type { Heard } from './wire.ts'

const json = (schema: object) => ({ content: { 'application/json': { schema } } })
const told = {
  properties: { error: { properties: { code: { enum: ['invoice_not_found', 'refund_declined'] } } } },
}
const operations = operationsOf({
  paths: {
    '/api/billing/refund': {
      post: {
        security: [{ bearer: [] }],
        requestBody: json({ type: 'object', properties: {} }) as never,
        responses: { 200: json({ type: 'object', required: ['data'] }), '4XX': json(told) },
      },
    },
  },
})
const scene = { tokens: ['rl_test_0123456789abcdefghij'], workspaces: ['ws'] } as unknown as Scene
const id = 'req_12345678'

function draftWith(more: Partial<Draft> = {}): Draft {
  return { ...soundRequest(operations[0]!, seededRandom(1), scene, 0), ...more }
}

function answered(status: number, body: unknown, headers: Record<string, string> = {}): Heard {
  const all = { 'x-request-id': id, 'content-type': 'application/json; charset=utf-8', ...headers }
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  return { kind: 'answered', status, headers: new Map(Object.entries(all)), body: bytes, surplus: 0, ms: 1 }
}

function refused(status: number, code: string, more: object = {}, headers?: Record<string, string>): Heard {
  return answered(
    status,
    { success: false, error: { code, message: 'No.', request_id: id, ...more } },
    headers,
  )
}

const written: Change = { relation: 'billing.refund', operation: 'insert', row: '{}' }
const posted: Change = { relation: 'billing.ledger_transfer', operation: 'insert', row: '{}' }

test.each<[string, Draft, Heard, Change[]]>([
  ['a yes of its schema', draftWith(), answered(200, { data: {} }), [written]],
  ['a no that the table knows', draftWith(), refused(404, 'invoice_not_found'), []],
  ['a decline that leaves its record', draftWith(), refused(402, 'refund_declined'), [written]],
  ['a hang-up on bytes that are no HTTP', draftWith({ mayClose: true }), { kind: 'closed', ms: 1 }, []],
])('all is well with %s', (_what, draft, heard, changes) => {
  expect(judge(draft, heard, changes, operations)).toEqual([])
})

test.each<[string, Draft, Heard, Change[]]>([
  ['a fault of ours', draftWith(), refused(500, 'internal_error'), []],
  ['a redirect', draftWith(), answered(302, ''), []],
  ['silence', draftWith(), { kind: 'late', ms: 5000 }, []],
  ['a hang-up', draftWith(), { kind: 'closed', ms: 1 }, []],
  ['another status than the document demands', draftWith({ expects: [400] }), answered(200, { data: 1 }), []],
  ['a success of another shape', draftWith(), answered(200, { dat: 1 }), []],
  ['a success that the document does not know', draftWith(), answered(201, { data: 1 }), []],
  ['an error without the envelope', draftWith(), answered(400, 'Bad Request'), []],
  ['a code nobody knows', draftWith(), refused(404, 'gone_fishing'), []],
  ['a code at the wrong status', draftWith(), refused(400, 'invoice_not_found'), []],
  ['a code of another area', draftWith(), refused(404, 'run_not_found'), []],
  ['a code that the operation does not list', draftWith(), refused(409, 'already_canceled'), []],
  ['validation without details', draftWith(), refused(400, 'validation_failed', { details: [] }), []],
  [
    'another request id in the body',
    draftWith(),
    refused(404, 'invoice_not_found', { request_id: 'req_x' }),
    [],
  ],
  ['no request id', draftWith(), answered(200, { data: {} }, { 'x-request-id': '' }), []],
  ['401 without a challenge', draftWith(), refused(401, 'unauthorized'), []],
  ['a card number repeated', draftWith(), refused(404, 'invoice_not_found', { message: plantedSecret }), []],
  ['the token repeated', draftWith(), refused(404, 'invoice_not_found', { message: scene.tokens[0] }), []],
  ['a refused request that wrote', draftWith(), refused(404, 'invoice_not_found'), [written]],
  ['a hang-up that wrote', draftWith({ mayClose: true }), { kind: 'closed', ms: 1 }, [written]],
  ['a question that wrote', draftWith({ method: 'GET' }), answered(200, { data: {} }), [written]],
  ['a decline that moved money', draftWith(), refused(402, 'refund_declined'), [posted]],
  [
    'another method that is not refused',
    draftWith({ method: 'PUT', wound: 'other method' }),
    answered(200, {}),
    [],
  ],
])('%s is a fault', (_what, draft, heard, changes) => {
  expect(judge(draft, heard, changes, operations)).not.toEqual([])
})
