import { useQuery } from '@tanstack/react-query'
import { client, dataOf } from './client.ts'

export type Session = Awaited<ReturnType<typeof fetchSession>>

export const fetchSession = () => dataOf(client.GET('/api/session'))

export function useSession(): Session {
  const { data } = useQuery({ queryKey: ['session'], queryFn: fetchSession, staleTime: 60_000 })
  return data!
}

/** What the token may do: the same rule as the server's, used only to leave out what it would refuse. */
export function mayUse(session: Session, scope: string): boolean {
  const has = (one: string) => session.scopes.includes(one)
  if (has('admin') || has(scope)) return true
  return scope.endsWith(':read') && has(scope.replace(':read', ':write'))
}

export function useMay(): (scope: string) => boolean {
  const session = useSession()
  return (scope) => mayUse(session, scope)
}
