import { ApiError } from '../api/client.ts'
import type { Say } from './language.tsx'

/** What went wrong, in the words of the API; that nobody was reached, in ours. */
export function messageOf(error: unknown, say: Say): string {
  if (!(error instanceof ApiError)) return String((error as Error)?.message ?? error)
  return error.code === 'unreachable' ? say('unreachable') : (error.details[0]?.message ?? error.message)
}
