import { useInfiniteQuery } from '@tanstack/react-query'

type Page = { next_cursor: string | null }

/** A list of the API, page after page. */
export function useList<P extends Page>(
  key: readonly unknown[],
  fetchPage: (cursor: string | undefined) => Promise<P>,
  options: { everyMs?: number; enabled?: boolean } = {},
) {
  return useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam }) => fetchPage(pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page: P) => page.next_cursor ?? undefined,
    refetchInterval: options.everyMs ?? false,
    enabled: options.enabled ?? true,
  })
}

/** Query fields without the empty ones. */
export function asked<T extends Record<string, unknown>>(query: T): T {
  return Object.fromEntries(
    Object.entries(query).filter(([, value]) => value !== undefined && value !== ''),
  ) as T
}
