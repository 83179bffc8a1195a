import { Button, Skeleton, Stack, Text } from '@mantine/core'
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { ApiError } from '../api/client.ts'
import { useSay } from './language.tsx'
import { messageOf } from './message-of.ts'

export function Empty({ title, hint, children }: { title: string; hint?: string; children?: ReactNode }) {
  return (
    <Stack align="center" gap={6} py={44} px="md" ta="center">
      <svg
        width="40"
        height="40"
        viewBox="0 0 32 32"
        aria-hidden
        fill="none"
        stroke="currentColor"
        opacity="0.35"
        strokeWidth="2"
        strokeLinecap="round"
      >
        <path d="M6 25V18m6.7 7V13m6.6 12v-8M26 25V8" />
      </svg>
      <Text fw={600}>{title}</Text>
      {hint && (
        <Text size="sm" c="dimmed" maw={420}>
          {hint}
        </Text>
      )}
      {children}
    </Stack>
  )
}

export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const say = useSay()
  const isOurs = error instanceof ApiError
  const title = isOurs && error.status === 403 ? say('forbidden') : say('failed')
  return (
    <Empty title={title} hint={messageOf(error, say)}>
      {isOurs && error.requestId && (
        <Text size="xs" c="dimmed">
          {say('quote', { id: error.requestId })}
        </Text>
      )}
      {retry && (
        <Button size="xs" variant="default" onClick={retry}>
          {say('retry')}
        </Button>
      )}
    </Empty>
  )
}

/** Loading, failed, or there. */
export function Loaded<T>({
  query,
  children,
  rows = 6,
}: {
  query: UseQueryResult<T>
  children: (data: T) => ReactNode
  rows?: number
}) {
  if (query.data !== undefined) return <>{children(query.data)}</>
  if (query.isError) return <Failure error={query.error} retry={() => void query.refetch()} />
  return <Waiting rows={rows} />
}

export function Waiting({ rows }: { rows: number }) {
  const say = useSay()
  return (
    <Stack gap={10} p="md" role="status" aria-label={say('loading')}>
      {Array.from({ length: rows }, (_, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: they are all alike
        <Skeleton key={at} height={18} radius="sm" width={`${96 - (at % 3) * 14}%`} />
      ))}
    </Stack>
  )
}
