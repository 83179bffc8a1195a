import type Stripe from 'stripe'

type Made = { readonly id: string; readonly created: number }

/** One of Stripe's lists between two instants: newest first there, oldest first here. */
export type List<T extends Made> = (query: {
  created: { gte: number; lt: number }
  limit: number
  starting_after?: string
}) => Promise<Stripe.ApiList<T>>

const pageSize = 100
const firstSpan = 3_600
// So many empty or crowded spans are looked through before the caller hears that it goes on.
const mostLooks = 24

/**
 * A page in the order of making. Stripe only lists backwards, so the time is cut into spans small enough for one page, and
 * each is turned round. The cursor is where the next span begins, and how long it shall be.
 */
export async function listOldestFirst<T extends Made>(
  list: List<T>,
  from: Date,
  to: Date,
  cursor: string | null,
): Promise<{ items: T[]; next: string | null }> {
  const end = Math.ceil(to.getTime() / 1000)
  const place = /^(\d{1,12})\+(\d{1,9})$/.exec(cursor ?? '')
  let begin = place ? Number(place[1]) : Math.floor(from.getTime() / 1000)
  let span = place ? Number(place[2]) : firstSpan
  for (let looks = 0; looks < mostLooks && begin < end; looks++) {
    const until = Math.min(begin + Math.max(span, 1), end)
    const created = { gte: begin, lt: until }
    const page = await list({ created, limit: pageSize })
    if (page.has_more && until - begin > 1) {
      span = Math.max(1, Math.floor((until - begin) / 4))
      continue
    }
    const items = page.has_more ? await readOn(list, created, page.data) : page.data
    begin = until
    // An empty stretch is crossed in longer strides.
    if (items.length < pageSize / 4) span = Math.min(span * 4, 400 * 86_400)
    if (items.length > 0) return { items: [...items].reverse(), next: nextOf(begin, end, span) }
  }
  return { items: [], next: nextOf(begin, end, span) }
}

function nextOf(begin: number, end: number, span: number): string | null {
  return begin < end ? `${begin}+${span}` : null
}

/** Everything of a single second. */
async function readOn<T extends Made>(
  list: List<T>,
  created: { gte: number; lt: number },
  first: readonly T[],
): Promise<T[]> {
  const items = [...first]
  for (let hasMore = true; hasMore; ) {
    const page = await list({ created, limit: pageSize, starting_after: items.at(-1)!.id })
    items.push(...page.data)
    hasMore = page.has_more && page.data.length > 0
  }
  return items
}
