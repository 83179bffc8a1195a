import type { SourceReply, SourceRequest } from './source-sandbox.ts'

/** Whose keys a call brings: those of the API hub and of the developers' centre have headers of their own. */
export function naverKeysOf({ headers }: SourceRequest, isHub: boolean): { id: string; secret: string } {
  const header = (name: string) => headers[name]?.toString() ?? ''
  return isHub
    ? { id: header('x-ncp-apigw-api-key-id'), secret: header('x-ncp-apigw-api-key') }
    : { id: header('x-naver-client-id'), secret: header('x-naver-client-secret') }
}

/** Why keys open nothing; undefined: they do. */
export function keyTrouble(keys: { id: string; secret: string }, isHub: boolean): SourceReply | undefined {
  if (keys.id === '' || keys.secret === '' || /refused/.test(keys.secret))
    return isHub ? hubRefusal : openRefusal
  return /empty/.test(keys.secret) ? quotaReply(isHub) : undefined
}

/** An application that has not chosen the service: the hub calls that a limit, the older host a refusal. */
export function notChosen(isHub: boolean): SourceReply {
  return isHub ? hubQuota : openRefusal
}

export function quotaReply(isHub: boolean): SourceReply {
  return isHub ? hubQuota : openQuota
}

const hubRefusal = { status: 401, body: { error: { errorCode: '200', message: 'Authentication Failed' } } }
const openRefusal = { status: 401, body: { errorMessage: 'Authentication failed', errorCode: '024' } }
const hubQuota = { status: 429, body: { error: { errorCode: '400', message: 'Quota Exceeded' } } }
const openQuota = { status: 429, body: { errorMessage: 'Query limit exceeded', errorCode: '010' } }
