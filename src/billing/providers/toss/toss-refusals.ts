import type { JsonAnswer } from '../../../platform/fetch-json.ts'

export const credentialCodes: ReadonlySet<string> = new Set([
  'UNAUTHORIZED_KEY',
  'INVALID_API_KEY',
  'FORBIDDEN_REQUEST',
  'INCORRECT_BASIC_AUTH_FORMAT',
])

export function refusesCredentials(answer: JsonAnswer): boolean {
  return credentialCodes.has(refusalOf(answer) ?? '')
}

/** The code of an answer that refuses. What a server says that fails itself is no code to go by. */
export function refusalOf(answer: JsonAnswer): string | undefined {
  if (answer.kind !== 'answered' || answer.status < 400 || answer.status >= 500) return undefined
  const code = (answer.body as { code?: unknown } | null | undefined)?.code
  return typeof code === 'string' ? code : undefined
}
