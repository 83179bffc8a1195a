import { Alert } from '@mantine/core'
import { notifyManager, useQueryClient } from '@tanstack/react-query'
import { useSyncExternalStore } from 'react'
import { useSay } from './language.tsx'

/** Says that something on the page is what it was, because it could not be read anew. */
export function StaleNote() {
  const say = useSay()
  const cache = useQueryClient().getQueryCache()
  const isStale = useSyncExternalStore(
    (onChange) => cache.subscribe(notifyManager.batchCalls(onChange)),
    () =>
      cache
        .findAll({ type: 'active' })
        .some(
          ({ state }) =>
            state.data !== undefined && (state.status === 'error' || state.fetchStatus === 'paused'),
        ),
  )
  if (!isStale) return null
  return (
    <Alert color="orange" mb="md" role="status">
      {say('stale')}
    </Alert>
  )
}
