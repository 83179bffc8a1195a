import { useNavigate, useSearch } from '@tanstack/react-router'
import type { Filters } from '../routes.tsx'

/** The filters of a page live in its address, so that a link shows what was seen. */
export function useFilters(): readonly [Filters, (change: Filters) => void] {
  const search = useSearch({ strict: false }) as Filters
  const navigate = useNavigate()
  return [
    search,
    (change) => void navigate({ to: '.', search: { ...search, ...change } as never, replace: true }),
  ]
}
