import { Compile } from 'typebox/compile'
import { ErrorBody } from '../../src/platform/http/answers.ts'
import { saidBeforeRoutes } from '../api-document.ts'
import type { Change } from './change-watch.ts'
import { knownCodes, saidByProvider } from './known-codes.ts'
import { plantedSecret } from './nasty-values.ts'
import type { Operation } from './operations.ts'
import type { Draft } from './sound-request.ts'
import type { Heard } from './wire.ts'

type Answered = Extract<Heard, { kind: 'answered' }>

/** Everything that is wrong with what came back, in words; nothing if all is well. */
export function judge(
  draft: Draft,
  heard: Heard,
  changes: readonly Change[],
  operations: readonly Operation[],
): string[] {
  if (heard.kind === 'late') return [`no answer within ${Math.round(heard.ms)} ms`]
  if (heard.kind === 'closed') {
    return [
      ...(draft.mayClose ? [] : ['hung up without an answer']),
      ...changeFaults(draft, undefined, changes),
    ]
  }
  const answering = answeringOperation(draft, operations)
  return [
    ...statusFaults(draft, heard, answering, operations),
    ...headerFaults(draft, heard),
    ...(draft.method === 'HEAD' ? [] : bodyFaults(draft, heard, answering)),
    ...changeFaults(draft, heard, changes),
  ]
}

/** The operation that these bytes reach; undefined where the path or HTTP itself is the wound. */
export function answeringOperation(draft: Draft, operations: readonly Operation[]): Operation | undefined {
  if (!draft.reaches) return undefined
  const method = draft.method === 'HEAD' ? 'GET' : draft.method
  return operations.find((one) => one.path === draft.operation.path && one.method === method)
}

function statusFaults(
  draft: Draft,
  { status, surplus }: Answered,
  answering: Operation | undefined,
  operations: readonly Operation[],
): string[] {
  const faults: string[] = []
  if (status >= 500 || status < 200 || (status >= 300 && status < 400)) faults.push(`status ${status}`)
  if (surplus > 0 && !draft.fresh) faults.push(`${surplus} bytes behind the answer`)
  const expects = expectedOf(draft, answering, operations)
  if (expects && !expects.includes(status) && status !== 429)
    faults.push(`status ${status} where ${expects.join(' or ')} is right`)
  return faults
}

function expectedOf(
  draft: Draft,
  answering: Operation | undefined,
  operations: readonly Operation[],
): readonly number[] | undefined {
  const isKnown = operations.some(({ path }) => path === draft.operation.path)
  if (draft.wound === 'other method' && isKnown && answering === undefined) return [405]
  if (!isKnown && draft.wound === 'none') return [404]
  return draft.expects
}

function headerFaults(draft: Draft, { status, headers }: Answered): string[] {
  const faults: string[] = []
  const id = headers.get('x-request-id')
  if (id === undefined || !/^[\w-]{8,64}$/.test(id)) faults.push(`X-Request-Id is ${id}`)
  const needed = { 401: 'www-authenticate', 405: 'allow', 429: 'retry-after' }[status]
  const signed = /webhook/.test(draft.operation.path)
  if (needed !== undefined && !(signed && status === 401) && !headers.has(needed))
    faults.push(`${status} without ${needed}`)
  if (headers.has('x-injected')) faults.push('a header of the caller’s making')
  return faults
}

function bodyFaults(draft: Draft, heard: Answered, answering: Operation | undefined): string[] {
  const { status, headers, body } = heard
  if (status >= 400) return errorFaults(draft, heard, answering)
  const content = answering?.answers.get(String(status)) ?? answering?.answers.get(`${status / 100}XX`)
  if (answering === undefined) return []
  if (!answering.answers.has(String(status))) return [`the document knows no ${status} here`]
  if (content === undefined) return []
  if (!headers.get('content-type')?.startsWith(content.type))
    return [`content type ${headers.get('content-type')} instead of ${content.type}`]
  if (content.type === 'application/pdf') return body.subarray(0, 5).toString() === '%PDF-' ? [] : ['no PDF']
  if (content.type !== 'application/json') return []
  const json = parsed(body)
  return json !== undefined && content.fits(json)
    ? []
    : [`an answer that is not of its schema: ${shown(body)}`]
}

const isError = Compile(ErrorBody)

function errorFaults(draft: Draft, heard: Answered, answering: Operation | undefined): string[] {
  const { status, headers, body } = heard
  const json = parsed(body) as
    | { error: { code: string; request_id: string; details?: unknown[] } }
    | undefined
  if (!isError.Check(json)) return [`${status} without the error envelope: ${shown(body)}`]
  const faults: string[] = []
  const { code, request_id, details } = json!.error
  const known = knownCodes[code]
  const listed = answering?.answers.get(String(status)) ?? answering?.answers.get('4XX')
  if (status < 500 && known?.[0] !== status) faults.push(`code ${code} at ${status}`)
  if (known && answering && !answering.path.startsWith(known[1]))
    faults.push(`code ${code} at ${answering.path}`)
  if (status < 500 && listed && !saidBeforeRoutes.has(code) && !listed.fits(json))
    faults.push(`an error that the document does not list here: ${shown(body)}`)
  if (code === 'validation_failed' && !details?.length) faults.push('validation_failed without details')
  if (request_id !== headers.get('x-request-id') && !headers.has('idempotent-replayed'))
    faults.push(`request_id ${request_id} is not the header's`)
  const text = body.toString()
  if (text.includes(plantedSecret)) faults.push(`the error repeats a card number: ${shown(body)}`)
  const token = draft.headers.find(([name]) => name === 'authorization')?.[1].split(' ')[1]
  if (token && token.length > 20 && text.includes(token)) faults.push('the error repeats the token')
  return faults
}

/** A no changes nothing; a question changes nothing; and whatever else it leaves, no 4xx ever moves money. */
function changeFaults(draft: Draft, heard: Answered | undefined, all: readonly Change[]): string[] {
  const accepted = heard !== undefined && heard.status < 400
  const reads = ['GET', 'HEAD', 'OPTIONS'].includes(draft.method)
  if (accepted && !reads) return []
  // Whoever read personal data is noted, and that is all that reading leaves behind. Who hung up may have been answered,
  // and who ends the connection in the middle of a body is told so while the answer is on its way.
  const mayNote = reads && (accepted || heard === undefined || draft.halfClose)
  const changes = all.filter((change) => !(mayNote && isNoteOfReading(change)))
  if (changes.length === 0) return []
  const code = heard && (parsed(heard.body) as { error?: { code?: string } } | undefined)?.error?.code
  const wrong = saidByProvider.has(code ?? '')
    ? changes.filter(({ relation }) => relation.startsWith('billing.ledger'))
    : changes
  return wrong
    .slice(0, 5)
    .map(
      ({ relation, operation, row }) =>
        `${heard?.status ?? 'hung up'}, and yet ${operation} of ${relation}: ${row.slice(0, 300)}`,
    )
}

function isNoteOfReading({ relation, operation, row }: Change): boolean {
  return (
    relation === 'platform.audit' &&
    operation === 'insert' &&
    /"action": "(?:account\.read|invoice\.print)"/.test(row)
  )
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

function shown(body: Buffer): string {
  return JSON.stringify(body.toString('utf8').slice(0, 200))
}
