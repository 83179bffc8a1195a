import { highestId, lowestId } from '../../platform/id.ts'
import type { ProviderContext } from '../provider-context.ts'
import { type Form, fieldsOf, listOf, textOf } from './form.ts'
import { invalid } from './stripe-error.ts'

export const endOfTime = new Date('9999-01-01T00:00:00Z')

export function limitOf(query: Form): number {
  const limit = Number(textOf(query, 'limit') ?? 10)
  if (!Number.isInteger(limit) || limit < 1 || limit > 100)
    throw invalid('Invalid limit: must be between 1 and 100.', { param: 'limit' })
  return limit
}

export function expandOf(query: Form): string[] {
  return listOf(query, 'expand').map((path) => path.replace(/^data\./, ''))
}

export function createdOf(query: Form): { gte: number; lt: number } {
  const created = fieldsOf(query, 'created')
  const bound = (name: string, add: number) => {
    const text = textOf(created, name)
    return text === undefined ? undefined : Number(text) + add
  }
  return {
    gte: bound('gte', 0) ?? bound('gt', 1) ?? 0,
    lt: bound('lt', 0) ?? bound('lte', 1) ?? endOfTime.getTime() / 1000,
  }
}

export function afterCursor<T extends { id: string }>(
  items: readonly T[],
  cursor: string | undefined,
): readonly T[] {
  if (cursor === undefined) return items
  const at = items.findIndex(({ id }) => id === cursor)
  return at === -1 ? [] : items.slice(at + 1)
}

/** A page of things made between two instants, newest first. */
export async function page<T extends { id: string; createdAt: string }>(
  context: ProviderContext,
  kind: string,
  prefix: `${string}_`,
  query: Form,
  part: object,
): Promise<{ items: T[]; hasMore: boolean }> {
  const { gte, lt } = createdOf(query)
  const limit = limitOf(query)
  const startingAfter = textOf(query, 'starting_after')
  const endingBefore = textOf(query, 'ending_before')
  const isInside = ({ createdAt }: T) => {
    const at = Math.floor(Date.parse(createdAt) / 1000)
    return at >= gte && at < lt
  }
  let from = endingBefore !== undefined ? `${endingBefore}\u0001` : lowestId(prefix, new Date(gte * 1000))
  let before = startingAfter ?? highestId(prefix, new Date(lt * 1000))
  const order = endingBefore !== undefined ? 'oldest' : 'newest'
  const items: T[] = []
  // Ids may run a little ahead of the clock, so some of what lies between is not inside.
  while (items.length <= limit) {
    const found = await context.objects.between<T>(kind, order, { from, before, part }, limit + 1)
    items.push(...found.filter(isInside))
    const last = found.at(-1)
    if (found.length <= limit || !last) break
    if (order === 'oldest') from = `${last.id}0`
    else before = last.id
  }
  const shown = items.slice(0, limit)
  return { items: order === 'oldest' ? shown.reverse() : shown, hasMore: items.length > limit }
}
