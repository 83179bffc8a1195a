import { Autocomplete } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { client, dataOf } from '../api/client.ts'
import { useSession } from '../api/session.ts'
import { useFilters } from './filters.ts'
import { useSay } from './language.tsx'

const kept = 'rankledger.workspace'

/** Whether a text can be a workspace's id. */
export const isWorkspace = (text: string) => /^[\w.:-]{1,64}$/.test(text)

/** The workspace in sight: the address's, the token's, the one seen last, or the first there is. */
export function useWorkspace(): {
  workspace: string | undefined
  known: readonly string[]
  isLoading: boolean
} {
  const [filters] = useFilters()
  const { workspace: bound } = useSession()
  const isAll = bound === '*'
  const query = useQuery({
    queryKey: ['batch-summary'],
    queryFn: () => dataOf(client.GET('/api/batch/summary')),
    staleTime: 30_000,
    enabled: isAll,
  })
  if (!isAll) return { workspace: bound ?? undefined, known: [], isLoading: false }
  const known = query.data?.workspaces ?? []
  const last = sessionStorage.getItem(kept) ?? undefined
  return {
    workspace: filters.workspace ?? (last && known.includes(last) ? last : known[0]),
    known,
    isLoading: query.isLoading,
  }
}

export function WorkspaceField() {
  const say = useSay()
  const { workspace: bound } = useSession()
  const [, setFilters] = useFilters()
  const { workspace, known } = useWorkspace()
  if (bound !== '*') return null
  const choose = (one: string) => {
    if (!isWorkspace(one)) return
    sessionStorage.setItem(kept, one)
    setFilters({ workspace: one, q: undefined })
  }
  return (
    <Autocomplete
      key={workspace}
      size="xs"
      w={180}
      aria-label={say('workspace')}
      placeholder={say('workspace')}
      data={[...known]}
      defaultValue={workspace ?? ''}
      onOptionSubmit={choose}
      onBlur={({ currentTarget: { value } }) => value !== workspace && choose(value)}
      onKeyDown={({ key, currentTarget: { value } }) => key === 'Enter' && choose(value)}
    />
  )
}
