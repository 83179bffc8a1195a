import { limitOf, type Page, type PageRequest, pageOf, readCursor, writeCursor } from '../../platform/page.ts'
import type { BatchApp } from '../app.ts'
import { foreignCursor } from '../cursor.ts'
import { cleanOne } from './clean-keywords.ts'
import { findEndOfReach, listKeywords, type RegisteredKeyword } from './keyword-rows.ts'

// A search reads no further than this for one page. A page that ends there may hold few keywords or none, and its
// cursor goes on.
const reach = 10_000

/** The keywords of a workspace, all of them or those that contain a text. */
export async function searchKeywords(
  app: BatchApp,
  workspaceId: string,
  query: PageRequest & { q?: string },
): Promise<Page<RegisteredKeyword>> {
  const after = cursorOf(query)
  const limit = limitOf(query)
  const part = query.q === undefined || query.q.trim() === '' ? null : cleanOne(query.q, 'q').key
  const rows = await listKeywords(app.db, workspaceId, { after, part, limit: limit + 1, reach })
  const page = pageOf(rows, limit, ({ id }) => [String(id)])
  if (part === null || page.nextCursor !== null) return page

  const end = await findEndOfReach(app.db, workspaceId, after, reach)
  return end === undefined ? page : { ...page, nextCursor: writeCursor([String(end)]) }
}

/** The id of the last keyword seen. Keywords are never deleted, so it always marks a place. */
function cursorOf(query: PageRequest): string | null {
  const id = readCursor(query, 1)?.[0]
  if (id === undefined) return null
  if (!/^\d{1,18}$/.test(id)) throw foreignCursor()
  return id
}
