import { useRouter } from '@tanstack/react-router'
import { useSay } from './language.tsx'
import { Empty, Failure } from './load-parts.tsx'
import { To } from './value-parts.tsx'

export function NotFound() {
  const say = useSay()
  return (
    <Empty title={say('notFound')}>
      <To to="/">{say('overview')}</To>
    </Empty>
  )
}

export function PageFailure({ error }: { error: unknown }) {
  const router = useRouter()
  return <Failure error={error} retry={() => void router.invalidate()} />
}
