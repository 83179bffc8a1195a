import Type from 'typebox'
import { refuseRequest } from './refusal.ts'

/** The two query fields of every list. */
export const pageQuery = {
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })),
  cursor: Type.Optional(Type.String({ maxLength: 512 })),
}

export type PageRequest = { limit?: number; cursor?: string }
export type Page<T> = { items: T[]; nextCursor: string | null }

export function limitOf(request: PageRequest): number {
  return request.limit ?? 20
}

/** Where the page before ended: the sort values of its last row. Opaque to callers, checked when it comes back. */
export function readCursor<const N extends number>(request: PageRequest, parts: N): string[] | undefined {
  if (request.cursor === undefined) return undefined
  try {
    const values: unknown = JSON.parse(Buffer.from(request.cursor, 'base64url').toString('utf8'))
    if (
      Array.isArray(values) &&
      values.length === parts &&
      // No text of the database holds U+0000, so no cursor of ours does.
      values.every((value) => typeof value === 'string' && !value.includes('\0'))
    )
      return values
  } catch {
    // Falls through: not one of ours.
  }
  throw refuseRequest('validation_failed', {
    details: [
      {
        path: 'cursor',
        code: 'invalid_cursor',
        message: 'This cursor was not made by this list; start without one.',
      },
    ],
  })
}

export function writeCursor(values: readonly string[]): string {
  return Buffer.from(JSON.stringify(values)).toString('base64url')
}

/** Cuts a list read with one row too many into a page, and says where the next one starts. */
export function pageOf<T>(rows: T[], limit: number, sortValues: (row: T) => string[]): Page<T> {
  const items = rows.slice(0, limit)
  const last = items.at(-1)
  return {
    items,
    nextCursor: rows.length > limit && last !== undefined ? writeCursor(sortValues(last)) : null,
  }
}
