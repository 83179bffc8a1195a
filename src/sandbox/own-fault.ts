import { Refusal } from '../platform/refusal.ts'

/** Whether an error is a fault of this server, and not of what it was sent. */
export function isOwnFault(error: unknown): boolean {
  if (error instanceof Refusal) return error.status >= 500
  return ((error as { statusCode?: number }).statusCode ?? 500) >= 500
}
